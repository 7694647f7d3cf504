#include "application/data/dataset_summary.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/utf8.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"

namespace chorus::inline data {
namespace {

std::uint64_t count_words(std::string_view text) {
  std::uint64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    words += inside || space ? 0 : 1;
    inside = !space;
  }
  return words;
}

std::vector<DatasetSummary::Name> names_of(const StringTable& table) {
  std::vector<DatasetSummary::Name> names(table.size());
  for (std::size_t i = 0; i < names.size(); ++i) names[i].name = table.at(static_cast<std::int32_t>(i));
  return names;
}

void count(std::vector<DatasetSummary::Name>& names, std::int32_t id, Split split) {
  if (id >= 0) ++names[static_cast<std::size_t>(id)].counts[static_cast<std::size_t>(split)];
}

bool labelled(const Dataset& data, const Example& example) {
  switch (data.formulation()) {
    case Formulation::kTextClassification:
    case Formulation::kPairClassification:
      return example.label >= 0;
    case Formulation::kPairRegression:
      return !std::isnan(example.score);
    case Formulation::kSequenceTagging:
      return !example.tags.empty();
    case Formulation::kSpanExtraction:
      return !example.answers.empty();
    case Formulation::kSeq2Seq:
      return !example.second.empty();
    case Formulation::kLanguageModel:
      return true;
  }
  return true;
}

Quantiles score_quantiles(std::vector<double>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
  };
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return {values.front(), at(0.25), at(0.5), at(0.75), at(0.9), values.back(), mean};
}

using Align = TextTable::Align;

/// Times before 1980 are an order, not dates.
std::string time_text(std::int64_t time) {
  constexpr std::int64_t kFirst = 315532800;
  constexpr std::int64_t kLast = 32503680000;
  if (time < kFirst || time > kLast) return std::to_string(time);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(time)));
}

std::uint64_t total(const DatasetSummary::Name& name) {
  return std::accumulate(name.counts.begin(), name.counts.end(), std::uint64_t{0});
}

void add_quantiles(TextTable& table, const std::string& title, const Quantiles& q) {
  std::vector<std::string> cells{title};
  for (const double value : {q.min, q.q25, q.median, q.q75, q.q90, q.max})
    cells.push_back(fmt::format("{:.6g}", value));
  cells.push_back(fmt::format("{:.2f}", q.mean));
  table.add(std::move(cells));
}

std::string names_text(const char* what, const std::vector<DatasetSummary::Name>& names, std::size_t most) {
  TextTable table({{what},
                   {"train", Align::kRight},
                   {"validation", Align::kRight},
                   {"test", Align::kRight},
                   {"share", Align::kRight}});
  double all = 0;
  for (const auto& name : names) all += static_cast<double>(total(name));
  std::vector<std::size_t> order(names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (names.size() > most) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return total(names[a]) > total(names[b]); });
  }
  for (std::size_t i = 0; i < order.size() && i < most; ++i) {
    const auto& name = names[order[i]];
    table.add({shortened(name.name, 48), std::to_string(name.counts[0]), std::to_string(name.counts[1]),
               std::to_string(name.counts[2]),
               fmt::format("{:.1f} %", all > 0 ? 100 * static_cast<double>(total(name)) / all : 0)});
  }
  std::string text = "\n" + table.render();
  if (names.size() > most) text += fmt::format("and {} more\n", names.size() - most);
  return text;
}

nlohmann::ordered_json quantiles_json(const Quantiles& q) {
  return {{"min", q.min}, {"q25", q.q25}, {"median", q.median}, {"q75", q.q75},
          {"q90", q.q90}, {"max", q.max}, {"mean", q.mean}};
}

nlohmann::ordered_json names_json(const std::vector<DatasetSummary::Name>& names) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& name : names) {
    list.push_back(
        {{"name", name.name}, {"train", name.counts[0]}, {"validation", name.counts[1]}, {"test", name.counts[2]}});
  }
  return list;
}

}  // namespace

Quantiles quantiles_of(std::vector<std::uint64_t>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return static_cast<double>(values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)]);
  };
  const auto sum = static_cast<double>(std::accumulate(values.begin(), values.end(), std::uint64_t{0}));
  return {at(0), at(0.25), at(0.5), at(0.75), at(0.9), at(1), sum / static_cast<double>(values.size())};
}

DatasetSummary summarise(const Dataset& data) {
  DatasetSummary summary;
  summary.formulation = name_of(data.formulation());
  summary.labels = names_of(data.labels());
  summary.tags = names_of(data.tags());
  summary.sources = names_of(data.sources());
  summary.clients = data.clients().size();
  std::vector<std::uint64_t> words, characters, second_words;
  std::vector<std::uint64_t> client_sizes(data.clients().size());
  std::vector<double> scores;
  words.reserve(data.size());
  characters.reserve(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Example example = data.at(i);
    ++summary.sizes[static_cast<std::size_t>(example.split)];
    summary.unlabelled += labelled(data, example) ? 0 : 1;
    count(summary.labels, example.label, example.split);
    count(summary.sources, example.source, example.split);
    for (const std::int32_t tag : example.tags) count(summary.tags, tag, example.split);
    if (example.words.empty()) {
      words.push_back(count_words(example.text));
      characters.push_back(utf8::count(example.text));
    } else {
      words.push_back(example.words.size());
      std::uint64_t length = example.words.size() - 1;
      for (std::size_t w = 0; w < example.words.size(); ++w) length += utf8::count(example.words[w]);
      characters.push_back(length);
    }
    if (!example.second.empty()) second_words.push_back(count_words(example.second));
    summary.answers += data.formulation() == Formulation::kSpanExtraction ? example.answers.size() : 0;
    if (!std::isnan(example.score)) scores.push_back(example.score);
    if (example.client >= 0) ++client_sizes[static_cast<std::size_t>(example.client)];
    if (example.time != kNoTime) {
      summary.first_time = summary.first_time == kNoTime ? example.time : std::min(summary.first_time, example.time);
      summary.last_time = std::max(summary.last_time, example.time);
    }
  }
  summary.words = quantiles_of(words);
  summary.characters = quantiles_of(characters);
  summary.has_second = !second_words.empty();
  summary.second_words = quantiles_of(second_words);
  summary.client_sizes = quantiles_of(client_sizes);
  summary.has_scores = !scores.empty();
  summary.scores = score_quantiles(scores);
  summary.memory = data.memory();
  summary.fingerprint = data.fingerprint().hex();
  summary.report = data.report();
  return summary;
}

std::string DatasetSummary::text(std::size_t most) const {
  std::string out = fmt::format("{}: {} train, {} validation, {} test", formulation, sizes[0], sizes[1], sizes[2]);
  if (unlabelled != 0) out += fmt::format(" ({} unlabelled)", unlabelled);
  out += fmt::format("\n{:.1f} MB in memory, fingerprint {}\n\n", static_cast<double>(memory) / 1e6, fingerprint);

  TextTable lengths({{"per example"},
                     {"min", Align::kRight},
                     {"25 %", Align::kRight},
                     {"50 %", Align::kRight},
                     {"75 %", Align::kRight},
                     {"90 %", Align::kRight},
                     {"max", Align::kRight},
                     {"mean", Align::kRight}});
  add_quantiles(lengths, "words", words);
  add_quantiles(lengths, "characters", characters);
  if (has_second) add_quantiles(lengths, "words of the second text", second_words);
  if (has_scores) add_quantiles(lengths, "score", scores);
  if (clients != 0) add_quantiles(lengths, "examples per client", client_sizes);
  out += lengths.render();

  if (!labels.empty()) out += names_text("label", labels, most);
  if (!tags.empty()) out += names_text("tag", tags, most);
  if (!sources.empty()) out += names_text("source", sources, most);
  if (answers != 0) out += fmt::format("\n{} answers\n", answers);
  if (clients != 0) out += fmt::format("\n{} clients\n", clients);
  if (first_time != kNoTime) out += fmt::format("times from {} to {}\n", time_text(first_time), time_text(last_time));
  return out;
}

std::string DatasetSummary::json() const {
  nlohmann::ordered_json out;
  out["formulation"] = formulation;
  out["examples"] = {{"train", sizes[0]}, {"validation", sizes[1]}, {"test", sizes[2]}};
  out["unlabelled"] = unlabelled;
  out["labels"] = names_json(labels);
  out["tags"] = names_json(tags);
  out["sources"] = names_json(sources);
  out["words"] = quantiles_json(words);
  out["characters"] = quantiles_json(characters);
  if (has_second) out["second_words"] = quantiles_json(second_words);
  if (has_scores) out["scores"] = quantiles_json(scores);
  out["answers"] = answers;
  out["clients"] = {{"count", clients}, {"sizes", quantiles_json(client_sizes)}};
  if (first_time != kNoTime) out["time"] = {{"first", first_time}, {"last", last_time}};
  out["skipped_or_empty"] = report.empty;
  out["replaced_bytes"] = report.replaced_bytes;
  out["misaligned_answers"] = {
      {"found", report.misaligned}, {"moved", report.realigned}, {"dropped", report.unaligned}};
  out["notes"] = report.notes;
  out["memory_bytes"] = memory;
  out["fingerprint"] = fingerprint;
  return out.dump(2);
}

}  // namespace chorus::inline data
