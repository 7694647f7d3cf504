#include "application/data/readers/squad.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/readers/answers.h"
#include "application/data/readers/format.h"
#include "application/data/readers/json_stream.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

using nlohmann::json;

class SquadReader final : public RecordReader {
 public:
  SquadReader(const std::filesystem::path& path, const ReaderOptions& options)
      : stream_(path), aligner_(options.misaligned) {
    stream_.enter('{');
    find_data();
  }

  std::optional<Formulation> formulation() const override { return Formulation::kSpanExtraction; }
  std::string where() const override {
    return question_.empty() ? stream_.where() : fmt::format("{} (question {})", stream_.where(), question_);
  }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, stream_.path(), stream_.replaced());
    return report;
  }

  bool next(Record& record) override {
    while (next_question()) {
      try {
        if (!fill(record)) continue;
      } catch (const json::exception& error) {
        throw DataError(
            fmt::format("{}: a question needs \"question\", \"id\" and \"answers\" with \"text\" and "
                        "\"answer_start\" ({})",
                        where(), error.what()));
      }
      ++report_.records;
      return true;
    }
    return false;
  }

 private:
  void find_data() {
    for (std::string key; stream_.next_key(key);) {
      if (key == "data") {
        stream_.enter('[');
        in_data_ = true;
        return;
      }
      stream_.skip();
    }
    throw DataError(fmt::format("{}: \"data\" is missing, so this is not SQuAD's JSON", stream_.path().string()));
  }

  const json& list(const json& object, const char* name) const {
    const auto found = object.find(name);
    if (!object.is_object() || found == object.end() || !found->is_array()) {
      throw DataError(fmt::format("{}: expected a list \"{}\"", where(), name));
    }
    return *found;
  }

  bool next_article() {
    if (!in_data_) return false;
    if (!stream_.next_element()) {
      in_data_ = false;
      for (std::string key; stream_.next_key(key);) stream_.skip();
      stream_.expect_end();
      return false;
    }
    question_.clear();
    const std::string_view text = stream_.value();
    article_ = parse_json(text, stream_.where());
    paragraphs_ = &list(article_, "paragraphs");
    paragraph_ = 0;
    return true;
  }

  /// Advances to the next question, given by qas_ and qa_.
  bool next_question() {
    if (qas_ != nullptr && ++qa_ < qas_->size()) return true;
    qas_ = nullptr;
    while (true) {
      while (paragraphs_ == nullptr || paragraph_ >= paragraphs_->size()) {
        if (!next_article()) return false;
      }
      const json& paragraph = (*paragraphs_)[paragraph_++];
      const json& qas = list(paragraph, "qas");
      if (qas.empty()) continue;
      const auto context = paragraph.find("context");
      if (context == paragraph.end() || !context->is_string()) {
        throw DataError(fmt::format("{}: a paragraph has no \"context\"", where()));
      }
      context_ = &context->get_ref<const std::string&>();
      aligner_.set_context(*context_);
      qas_ = &qas;
      qa_ = 0;
      return true;
    }
  }

  bool fill(Record& record) {
    const json& qa = (*qas_)[qa_];
    record.clear();
    question_ = qa.contains("id") ? json_text(qa["id"], where()) : fmt::format("{}", qa_);
    record.id = qa.contains("id") ? question_ : "";
    record.text = *context_;
    record.second = qa.at("question").get<std::string>();
    if (const auto title = article_.find("title"); title != article_.end()) record.source = json_text(*title, where());
    const json answers = qa.value("answers", json::array());
    for (const json& given : answers) {
      GoldAnswer answer{given.at("text").get<std::string>(), given.at("answer_start").get<std::int64_t>(), 0};
      if (aligner_.align(answer, report_, where())) record.answers.push_back(std::move(answer));
    }
    return answers.empty() || !record.answers.empty();
  }

  JsonStream stream_;
  AnswerAligner aligner_;
  ReadReport report_;
  json article_;
  const json* paragraphs_ = nullptr;
  const json* qas_ = nullptr;
  const std::string* context_ = nullptr;
  std::size_t paragraph_ = 0;
  std::size_t qa_ = 0;
  bool in_data_ = false;
  std::string question_;
};

int looks_like_squad(const FileHead& head) {
  const bool object = head.text.find_first_not_of(" \t\r\n\xEF\xBB\xBF") == head.text.find('{');
  const bool has =
      head.text.find("\"paragraphs\"") != std::string::npos && head.text.find("\"data\"") != std::string::npos;
  return object && has && !head.text.empty() ? kCertain : kNo;
}

const FormatRegistration kSquad{
    {"squad", "SQuAD 1.1 and 2.0 JSON", looks_like_squad,
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<SquadReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline readers
