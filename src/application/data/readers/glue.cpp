#include "application/data/readers/glue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <memory>
#include <optional>

#include "application/data/readers/csv.h"
#include "application/data/readers/format.h"
#include "application/data/readers/json_value.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

struct GlueTask {
  const char* name;  // without '-', lower case
  Formulation formulation;
  const char* text;
  const char* second;
  const char* label;
  const char* id = "index";
};

using enum Formulation;
constexpr std::array<GlueTask, 10> kTasks{{
    {"cola", kTextClassification, "sentence", "", "label"},
    {"sst2", kTextClassification, "sentence", "", "label"},
    {"mrpc", kPairClassification, "#1 String", "#2 String", "Quality"},
    {"stsb", kPairRegression, "sentence1", "sentence2", "score"},
    {"qqp", kPairClassification, "question1", "question2", "is_duplicate", "id"},
    {"mnli", kPairClassification, "sentence1", "sentence2", "gold_label"},
    {"qnli", kPairClassification, "question", "sentence", "label"},
    {"rte", kPairClassification, "sentence1", "sentence2", "label"},
    {"wnli", kPairClassification, "sentence1", "sentence2", "label"},
    {"diagnostic", kPairClassification, "sentence1", "sentence2", "label"},
}};

const GlueTask* task_named(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const GlueTask& task : kTasks) {
    if (plain == task.name) return &task;
  }
  return nullptr;
}

const GlueTask* task_of_folder(const std::filesystem::path& path) {
  return task_named(std::filesystem::absolute(path).parent_path().filename().string());
}

class GlueReader final : public RecordReader {
 public:
  GlueReader(const std::filesystem::path& path, const GlueTask& task) : rows_(path, '\t', false), task_(task) {
    if (!rows_.next(row_)) return;
    if (task.name == std::string_view("cola") && std::find(row_.begin(), row_.end(), "sentence") == row_.end()) {
      columns_ = {"source", "label", "star", "sentence"};
      pending_ = true;
    } else {
      columns_ = row_;
    }
    text_ = need(task.text);
    if (*task.second != 0) second_ = need(task.second);
    label_ = find(task.label);
    if (label_ == kNone && task.name == std::string_view("sst2")) label_ = find("gold_label");
    id_ = find(task.id);
    source_ = find("genre");
    if (source_ == kNone) source_ = find("source");
  }

  std::string where() const override { return rows_.where(); }
  std::optional<Formulation> formulation() const override { return task_.formulation; }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, rows_.lines().path(), rows_.lines().replaced());
    if (broken_ != 0) {
      report.notes.push_back(
          fmt::format("{}: {} rows with missing fields were skipped", rows_.lines().path().string(), broken_));
    }
    return report;
  }

  bool next(Record& record) override {
    while (pending_ || rows_.next(row_)) {
      pending_ = false;
      if (row_.size() != columns_.size()) {
        if (task_.name == std::string_view("qqp")) {
          ++broken_;
          continue;
        }
        throw DataError(fmt::format("{}: {} fields, but {} are expected ({})", where(), row_.size(), columns_.size(),
                                    fmt::join(columns_, ", ")));
      }
      record.clear();
      record.text = row_[text_];
      if (second_ != kNone) record.second = row_[second_];
      if (id_ != kNone) record.id = row_[id_];
      if (source_ != kNone) record.source = row_[source_];
      if (label_ != kNone) {
        if (task_.formulation == kPairRegression) {
          record.score = parse_score(row_[label_], where());
        } else {
          record.label = row_[label_];
        }
      }
      ++report_.records;
      return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::size_t find(const char* name) const {
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    return found == columns_.end() ? kNone : static_cast<std::size_t>(found - columns_.begin());
  }

  std::size_t need(const char* name) const {
    const std::size_t place = find(name);
    if (place != kNone) return place;
    throw DataError(fmt::format("{}: the column '{}', which GLUE's {} needs, is missing; the columns are {}", where(),
                                name, task_.name, fmt::join(columns_, ", ")));
  }

  RowReader rows_;
  const GlueTask& task_;
  std::vector<std::string> row_;
  std::vector<std::string> columns_;
  std::size_t text_ = kNone, second_ = kNone, label_ = kNone, id_ = kNone, source_ = kNone;
  std::uint64_t broken_ = 0;
  ReadReport report_;
  bool pending_ = false;
};

std::unique_ptr<RecordReader> open(const std::filesystem::path& path, const ReaderOptions& options) {
  const GlueTask* task = options.glue_task.empty() ? task_of_folder(path) : task_named(options.glue_task);
  if (task == nullptr) {
    throw ConfigError(
        fmt::format("{}: which GLUE task is this? Set glue_task to one of CoLA, SST-2, MRPC, STS-B, QQP, MNLI, "
                    "QNLI, RTE, WNLI, diagnostic{}",
                    path.string(), options.glue_task.empty() ? "" : fmt::format(", not '{}'", options.glue_task)));
  }
  return std::make_unique<GlueReader>(path, *task);
}

int looks_like_glue(const FileHead& head) {
  if (head.folder || task_of_folder(head.path) == nullptr) return kNo;
  const auto lines = head.lines(1);
  return !lines.empty() && lines.front().find('\t') != std::string_view::npos ? kByContent : kNo;
}

const FormatRegistration kGlue{{"glue", "the TSV files of the nine GLUE tasks", looks_like_glue, open}};

}  // namespace
}  // namespace chorus::inline readers
