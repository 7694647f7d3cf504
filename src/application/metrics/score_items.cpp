#include "application/metrics/score_items.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "application/metrics/python_text.h"
#include "application/metrics/score_json.h"
#include "application/metrics/score_lines.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/console/terminal.h"

namespace chorus::inline metrics {
namespace {

constexpr std::array<std::pair<const char*, ScoreTask>, 7> kTasks{{{"classification", ScoreTask::kClassification},
                                                                   {"regression", ScoreTask::kRegression},
                                                                   {"tagging", ScoreTask::kTagging},
                                                                   {"qa", ScoreTask::kQuestionAnswering},
                                                                   {"generation", ScoreTask::kGeneration},
                                                                   {"lm", ScoreTask::kLanguageModel},
                                                                   {"seq2seq", ScoreTask::kGeneration}}};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == line.npos; }

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

double number_in(std::string_view text, const std::string& place, const char* what) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    throw DataError(
        fmt::format("{}: '{}' is not a finite number; expected {}", place, shortened(printable(text), 40), what));
  return value;
}

// One item per line (labels, numbers, texts, losses). Blank lines at the end are not items, except for texts.
class PlainReader : public ScoreReader {
 public:
  PlainReader(std::unique_ptr<ScoreLines> lines, const ScoreFile& file) : lines_(std::move(lines)), file_(file) {}

  bool next(ScoreItem& item) override {
    item = {};
    std::string line;
    if (!lines_->next(line)) return false;
    item.place = lines_->place();
    if (file_.task == ScoreTask::kGeneration) {
      if (file_.side == ScoreSide::kPredictions) {
        item.text = std::move(line);
      } else {
        item.texts = {std::move(line)};
      }
      return true;
    }
    if (is_blank(line)) {
      while (lines_->next(line))
        if (!is_blank(line)) throw DataError(fmt::format("{}: the line is empty", item.place));
      return false;
    }
    switch (file_.task) {
      case ScoreTask::kClassification:
        item.text = trimmed(line);
        break;
      case ScoreTask::kRegression:
        item.number = number_in(line, item.place, "a score");
        break;
      default:
        read_loss(line, item);
    }
    return true;
  }

 private:
  static void read_loss(std::string_view line, ScoreItem& item) {
    const auto tab = line.find('\t');
    item.number = number_in(line.substr(0, tab), item.place, "a summed loss");
    if (tab != line.npos)
      item.tokens = checked_token_count(number_in(line.substr(tab + 1), item.place, "a number of tokens"), item.place);
  }

  std::unique_ptr<ScoreLines> lines_;
  ScoreFile file_;
};

// CoNLL columns: the tag is the last one, the word the first if there are two or more; blank lines end sentences.
class ConllReader : public ScoreReader {
 public:
  ConllReader(std::unique_ptr<ScoreLines> lines, const ScoreFile& file) : lines_(std::move(lines)), file_(file) {}

  bool next(ScoreItem& item) override {
    item = {};
    for (std::string line; lines_->next(line);) {
      const std::vector<std::string> columns = python_text::split(line);
      const bool blank = columns.empty() || columns.front() == "-DOCSTART-";
      if (blank && item.texts.empty()) continue;
      if (blank) return true;
      if (item.texts.empty()) item.place = lines_->place();
      try {
        check_tag(columns.back(), file_.scheme);
      } catch (const DataError& error) {
        throw DataError(fmt::format("{}: {}", lines_->place(), error.what()));
      }
      if (columns.size() > 1) item.words.push_back(columns.front());
      item.texts.push_back(columns.back());
    }
    return !item.texts.empty();
  }

 private:
  std::unique_ptr<ScoreLines> lines_;
  ScoreFile file_;
};

}  // namespace

ScoreTask score_task_named(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, task] : kTasks) {
    if (name == known) return task;
    names.emplace_back(known);
  }
  throw ConfigError(
      fmt::format("unknown task '{}' (known: {}){}", name, fmt::join(names, ", "), did_you_mean(name, names)));
}

const char* name_of(ScoreTask task) {
  for (const auto& [name, known] : kTasks)
    if (known == task) return name;
  return "";
}

std::unique_ptr<ScoreReader> open_score_file(const ScoreFile& file) {
  // The first line decides and is kept, because the file may be a pipe.
  auto lines = std::make_unique<ScoreLines>(file.path);
  std::string first;
  if (!lines->next(first)) {
    if (file.task != ScoreTask::kGeneration) throw DataError(fmt::format("{}: the file is empty", file.path));
    return std::make_unique<PlainReader>(std::move(lines), file);
  }
  lines->put_back();
  const auto object = nlohmann::json::parse(first, nullptr, false);
  if (file.task == ScoreTask::kQuestionAnswering) {
    const bool one_a_line = object.is_object() && object.contains("id") && object.size() > 1;
    return one_a_line ? json_lines_reader(std::move(lines), file) : whole_json_reader(*lines, file);
  }
  if (object.is_object()) return json_lines_reader(std::move(lines), file);
  if (file.task == ScoreTask::kTagging) return std::make_unique<ConllReader>(std::move(lines), file);
  return std::make_unique<PlainReader>(std::move(lines), file);
}

}  // namespace chorus::inline metrics
