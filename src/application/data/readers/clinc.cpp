#include "application/data/readers/clinc.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/readers/format.h"
#include "application/data/readers/json_stream.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

using nlohmann::json;

class ClincReader final : public RecordReader {
 public:
  explicit ClincReader(const std::filesystem::path& path) : stream_(path) { stream_.enter('{'); }

  std::optional<Formulation> formulation() const override { return Formulation::kTextClassification; }
  std::string where() const override { return stream_.where(); }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, stream_.path(), stream_.replaced());
    return report;
  }

  bool next(Record& record) override {
    while (!in_list_ || !stream_.next_element()) {
      in_list_ = false;
      std::string key;
      if (finished_ || !stream_.next_key(key)) {
        if (!finished_) stream_.expect_end();
        finished_ = true;
        return false;
      }
      stream_.enter('[');
      in_list_ = true;
      split_ = key.find("train") != std::string::npos  ? Split::kTrain
               : key.find("test") != std::string::npos ? Split::kTest
                                                       : Split::kValidation;
    }
    const std::string_view text = stream_.value();
    const json item = parse_json(text, where());
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_string()) {
      throw DataError(fmt::format("{}: each item must be [text, intent]", where()));
    }
    record.clear();
    record.text = item[0].get<std::string>();
    record.label = item[1].get<std::string>();
    record.split = split_;
    ++report_.records;
    return true;
  }

 private:
  JsonStream stream_;
  ReadReport report_;
  Split split_ = Split::kTrain;
  bool in_list_ = false;
  bool finished_ = false;
};

int looks_like_clinc(const FileHead& head) {
  // {"train": [["...
  std::string dense;
  for (const char c : head.text.substr(0, 400)) {
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') dense += c;
  }
  const std::size_t bracket = dense.find(":[[\"");
  return dense.starts_with("{\"") && bracket != std::string::npos && bracket < 40 ? kByContent : kNo;
}

const FormatRegistration kClinc{
    {"clinc", "CLINC150's JSON: lists of [text, intent] for each split", looks_like_clinc,
     [](const std::filesystem::path& path, const ReaderOptions&) -> std::unique_ptr<RecordReader> {
       return std::make_unique<ClincReader>(path);
     }}};

}  // namespace
}  // namespace chorus::inline readers
