#include "application/data/readers/slots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "application/data/readers/format.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

class SlotReader final : public LineRecordReader {
 public:
  SlotReader(const std::filesystem::path& path, const ReaderOptions& options)
      : LineRecordReader(path), formulation_(options.formulation.value_or(Formulation::kSequenceTagging)) {
    if (formulation_ != Formulation::kSequenceTagging && formulation_ != Formulation::kTextClassification) {
      throw ConfigError("the slots format supports seq_tagging and text_classification only");
    }
  }

  std::optional<Formulation> formulation() const override { return formulation_; }

  bool next(Record& record) override {
    std::string_view line;
    do {
      if (!lines_.next(line)) return false;
    } while (line.find_first_not_of(" \t") == std::string_view::npos);
    record.clear();
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      throw DataError(fmt::format("{}: expected a tab between words and tags", where()));
    }
    record.words = split_words(line.substr(0, tab));
    record.tags = split_words(line.substr(tab + 1));
    if (record.words.size() != record.tags.size()) {
      throw DataError(
          fmt::format("{}: {} words (with BOS and EOS) but {} tags (with the intent); each word needs "
                      "one tag",
                      where(), record.words.size(), record.tags.size()));
    }
    if (record.words.size() < 2 || record.words.front() != "BOS" || record.words.back() != "EOS") {
      throw DataError(fmt::format("{}: the words must begin with BOS and end with EOS", where()));
    }
    record.label = std::move(record.tags.back());
    record.tags.pop_back();
    record.tags.erase(record.tags.begin());
    record.words.pop_back();
    record.words.erase(record.words.begin());
    if (formulation_ == Formulation::kTextClassification) {
      record.text = fmt::format("{}", fmt::join(record.words, " "));
      record.words.clear();
      record.tags.clear();
    }
    ++report_.records;
    return true;
  }

 private:
  Formulation formulation_;
};

int looks_like_slots(const FileHead& head) {
  const auto lines = head.lines(1);
  return !lines.empty() && lines.front().starts_with("BOS ") && lines.front().find(" EOS\t") != std::string_view::npos
             ? kCertain
             : kNo;
}

const FormatRegistration kSlots{
    {"slots", "SNIPS and ATIS: BOS words EOS, a tab, tags and the intent", looks_like_slots,
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<SlotReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline readers
