#include "application/data/example_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/rng.h"
#include "core/base/utf8.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"

namespace chorus::inline data {
namespace {

constexpr const char* kBold = "\x1b[1m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";

std::string paint(const std::string& text, const char* code, bool colour) {
  return colour ? fmt::format("{}{}{}", code, text, kPlain) : text;
}

/// Entities as [word word]TYPE; a tag outside BIO is appended to its word as word/TAG.
std::string tagged_text(const Dataset& data, const Example& example, const ExampleStyle& style) {
  std::string out;
  const auto tag = [&](std::size_t i) -> std::string_view {
    return i < example.tags.size() ? data.tags().at(example.tags[i]) : std::string_view("O");
  };
  for (std::size_t i = 0; i < example.words.size();) {
    if (!out.empty()) out += ' ';
    const std::string_view first = tag(i);
    std::string span = printable(example.words[i++]);
    if (first == "O") {
      out += span;
      continue;
    }
    const bool bio = first.size() > 2 && first[1] == '-';
    const std::string_view type = bio ? first.substr(2) : first;
    while (bio && i < example.words.size() && tag(i).size() > 2 && tag(i)[0] == 'I' && tag(i).substr(2) == type) {
      span += ' ' + printable(example.words[i++]);
    }
    out += paint(fmt::format("[{}]{}", span, printable(type)), kGreen, style.colour);
  }
  return out;
}

std::string context_text(const Example& example, const ExampleStyle& style) {
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (std::size_t i = 0; i < example.answers.size(); ++i) {
    const AnswerView answer = example.answers[i];
    if (answer.begin < 0 || answer.end <= answer.begin) continue;
    spans.emplace_back(utf8::byte_position(example.text, static_cast<std::size_t>(answer.begin)),
                       utf8::byte_position(example.text, static_cast<std::size_t>(answer.end)));
  }
  std::sort(spans.begin(), spans.end());
  const std::size_t room = style.width * style.lines;
  std::size_t from = 0;
  if (!spans.empty() && spans.front().first > room / 2) {
    const std::size_t back = spans.front().first - room / 2;
    from = example.text.find(' ', back);
    from = from == std::string_view::npos || from > spans.front().first ? spans.front().first : from + 1;
  }
  std::string out = from > 0 ? "… " : "";
  std::size_t at = from;
  for (const auto& [begin, end] : spans) {
    if (begin < at) continue;  // overlaps the previous one
    out += printable(example.text.substr(at, begin - at));
    out += paint(fmt::format(">>{}<<", printable(example.text.substr(begin, end - begin))), kGreen, style.colour);
    at = end;
  }
  return out + printable(example.text.substr(at));
}

void add_text(std::string& out, const char* title, const std::string& text, const ExampleStyle& style) {
  const std::size_t indent = 10;
  const auto lines = wrapped(text, std::max<std::size_t>(style.width, 30) - indent);
  for (std::size_t i = 0; i < lines.size() && i < style.lines; ++i) {
    const bool cut = i + 1 == style.lines && lines.size() > style.lines;
    out += fmt::format("{:>8}  {}{}\n", i == 0 ? title : "", lines[i], cut ? " …" : "");
  }
}

}  // namespace

std::string example_text(const Dataset& data, std::size_t index, const ExampleStyle& style) {
  const Example example = data.at(index);
  std::string head = fmt::format("#{} {}", index, name_of(example.split));
  const auto add = [&](const char* title, std::string_view value) {
    if (!value.empty()) head += fmt::format("  {}: {}", title, shortened(printable(value), 60));
  };
  if (example.label >= 0) add("label", data.labels().at(example.label));
  if (!std::isnan(example.score)) add("score", fmt::format("{:.6g}", example.score));
  if (example.client >= 0) add("client", data.clients().at(example.client));
  if (example.source >= 0) add("source", data.sources().at(example.source));
  if (example.time != kNoTime) add("time", std::to_string(example.time));
  add("id", example.id);
  std::string out = paint(head, kBold, style.colour) + "\n";
  const bool qa = data.formulation() == Formulation::kSpanExtraction;
  if (qa) add_text(out, "question", printable(example.second), style);
  if (!example.words.empty()) {
    add_text(out, "words", tagged_text(data, example, style), style);
  } else {
    add_text(out, qa ? "context" : "text", context_text(example, style), style);
  }
  if (!qa && !example.second.empty()) {
    add_text(out, data.formulation() == Formulation::kSeq2Seq ? "target" : "second", printable(example.second), style);
  }
  return out;
}

std::string example_json(const Dataset& data, std::size_t index) {
  const Example example = data.at(index);
  nlohmann::ordered_json out;
  out["index"] = index;
  out["split"] = name_of(example.split);
  if (!example.id.empty()) out["id"] = example.id;
  if (!example.text.empty()) out["text"] = example.text;
  if (!example.second.empty()) out["second"] = example.second;
  if (example.label >= 0) out["label"] = data.labels().at(example.label);
  if (!std::isnan(example.score)) out["score"] = example.score;
  for (std::size_t i = 0; i < example.words.size(); ++i) out["words"].push_back(example.words[i]);
  for (const std::int32_t tag : example.tags) out["tags"].push_back(data.tags().at(tag));
  for (std::size_t i = 0; i < example.answers.size(); ++i) {
    const AnswerView answer = example.answers[i];
    out["answers"].push_back({{"text", answer.text}, {"answer_start", answer.begin}});
  }
  if (example.client >= 0) out["client"] = data.clients().at(example.client);
  if (example.source >= 0) out["source"] = data.sources().at(example.source);
  if (example.time != kNoTime) out["time"] = example.time;
  return out.dump();
}

std::vector<std::size_t> sample_indices(std::size_t size, std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> chosen;
  if (count >= size) {
    for (std::size_t i = 0; i < size; ++i) chosen.push_back(i);
    return chosen;
  }
  // Floyd's algorithm: distinct values without a list of all.
  RandomStream stream({.seed = seed, .purpose = "data sample"});
  std::set<std::size_t> taken;
  for (std::size_t j = size - count; j < size; ++j) {
    const auto pick = static_cast<std::size_t>(stream.below(j + 1));
    taken.insert(taken.contains(pick) ? j : pick);
  }
  return {taken.begin(), taken.end()};
}

}  // namespace chorus::inline data
