#include "application/data/readers/mrqa.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/readers/answers.h"
#include "application/data/readers/format.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

using nlohmann::json;

class MrqaReader final : public LineRecordReader {
 public:
  MrqaReader(const std::filesystem::path& path, const ReaderOptions& options)
      : LineRecordReader(path), aligner_(options.misaligned) {}

  std::optional<Formulation> formulation() const override { return Formulation::kSpanExtraction; }

  bool next(Record& record) override {
    try {
      while (next_question()) {
        if (!fill(record)) continue;
        ++report_.records;
        return true;
      }
    } catch (const json::exception& error) {
      throw DataError(
          fmt::format("{}: a line needs \"context\" and \"qas\" with \"qid\", \"question\" and "
                      "\"detected_answers\" ({})",
                      where(), error.what()));
    }
    return false;
  }

 private:
  bool next_question() {
    while (qas_ == nullptr || ++qa_ >= qas_->size()) {
      std::string_view line;
      qas_ = nullptr;
      if (!lines_.next(line)) return false;
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      paragraph_ = parse_json(line, where());
      if (const auto header = paragraph_.find("header"); header != paragraph_.end()) {
        source_ = header->is_object() ? header->value("dataset", "") : "";
        continue;
      }
      context_ = paragraph_.at("context").get<std::string>();
      aligner_.set_context(context_);
      qas_ = &paragraph_.at("qas");
      qa_ = static_cast<std::size_t>(-1);  // the loop's ++ yields 0
    }
    return true;
  }

  bool fill(Record& record) {
    const json& qa = qas_->at(qa_);
    record.clear();
    record.id = qa.contains("qid") ? json_text(qa["qid"], where()) : std::string();
    record.text = context_;
    record.second = qa.at("question").get<std::string>();
    record.source = source_;
    const json detected = qa.value("detected_answers", json::array());
    for (const json& answer : detected) {
      for (const json& span : answer.at("char_spans")) {
        GoldAnswer one{answer.at("text").get<std::string>(), span.at(0).get<std::int64_t>(), 0};
        if (aligner_.align(one, report_, where())) record.answers.push_back(std::move(one));
      }
    }
    return detected.empty() || !record.answers.empty();
  }

  AnswerAligner aligner_;
  json paragraph_;
  std::string context_;
  std::string source_;
  const json* qas_ = nullptr;
  std::size_t qa_ = 0;
};

int looks_like_mrqa(const FileHead& head) {
  if (!head.text.starts_with('{') || head.text.find("\"paragraphs\"") != std::string::npos) return kNo;
  const bool header = head.text.starts_with("{\"header\"");
  const bool qas =
      head.text.find("\"qas\"") != std::string::npos && head.text.find("\"detected_answers\"") != std::string::npos;
  return header || qas ? kCertain : kNo;
}

const FormatRegistration kMrqa{
    {"mrqa", "MRQA 2019 JSONL: a header line, then one context with its questions per line", looks_like_mrqa,
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<MrqaReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline readers
