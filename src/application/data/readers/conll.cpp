#include "application/data/readers/conll.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "application/data/readers/format.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

bool blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

void split_columns(std::string_view line, bool tabs, std::vector<std::string_view>& columns) {
  columns.clear();
  const std::string_view separators = tabs ? "\t" : " \t";
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find_first_of(separators, at), line.size());
    if (tabs || end > at) columns.push_back(line.substr(at, end - at));
    at = end + 1;
  }
}

class ConllReader final : public LineRecordReader {
 public:
  ConllReader(const std::filesystem::path& path, const ReaderOptions& options)
      : LineRecordReader(path), word_(options.word_column), tag_(options.tag_column) {}

  std::optional<Formulation> formulation() const override { return Formulation::kSequenceTagging; }
  std::string where() const override { return lines_.where(begin_ == 0 ? lines_.line() : begin_); }

  bool next(Record& record) override {
    record.clear();
    begin_ = 0;
    for (std::string_view line; lines_.next(line);) {
      if (blank(line)) {
        if (!record.words.empty()) break;
        continue;
      }
      if (line.starts_with("-DOCSTART-")) continue;
      if (!decided_) {
        tabs_ = line.find('\t') != std::string_view::npos;
        decided_ = true;
      }
      if (tabs_ && line.starts_with('#') && line.find('\t') == std::string_view::npos) continue;  // CoNLL-U comments
      if (begin_ == 0) begin_ = lines_.line();
      split_columns(line, tabs_, columns_);
      record.words.emplace_back(column(word_, "word"));
      record.tags.emplace_back(column(tag_, "tag"));
    }
    if (record.words.empty()) return false;
    ++report_.records;
    return true;
  }

 private:
  std::string_view column(int number, const char* what) const {
    const int count = static_cast<int>(columns_.size());
    const int place = number < 0 ? count + number : number;
    const bool both_same = count == 1 && word_ != tag_;
    if (place >= 0 && place < count && !both_same && !columns_[static_cast<std::size_t>(place)].empty()) {
      return columns_[static_cast<std::size_t>(place)];
    }
    throw DataError(
        fmt::format("{}: the line has {} column{}, but the {} should be in column {}; each word needs a tag",
                    lines_.where(), count, count == 1 ? "" : "s", what, number));
  }

  int word_;
  int tag_;
  bool decided_ = false;
  bool tabs_ = false;
  std::uint64_t begin_ = 0;
  std::vector<std::string_view> columns_;
};

int looks_like_conll(const FileHead& head) {
  const std::string extension = head.extension();
  const bool named = extension == ".conll" || extension == ".bio" || extension == ".iob2" || extension == ".conllu" ||
                     extension == ".annotated";
  // The last column looks like a tag on every line, and there are blank lines.
  bool breaks = false;
  std::size_t words = 0;
  std::vector<std::string_view> columns;
  for (const std::string_view line : head.lines(200)) {
    if (blank(line) || line.starts_with("-DOCSTART-")) {
      breaks = true;
      continue;
    }
    split_columns(line, line.find('\t') != std::string_view::npos, columns);
    if (columns.size() < 2) return named ? kByName : kNo;
    const std::string_view tag = columns.back();
    if (tag != "O" && !tag.starts_with("B-") && !tag.starts_with("I-") && !tag.starts_with("S-") &&
        !tag.starts_with("E-") && !tag.starts_with("L-") && !tag.starts_with("U-")) {
      return named ? kByName : kNo;
    }
    ++words;
  }
  return breaks && words > 0 ? kByContent : named ? kByName : kNo;
}

const FormatRegistration kConll{
    {"conll", "one word and its tag per line, a blank line after each sentence", looks_like_conll,
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<ConllReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline readers
