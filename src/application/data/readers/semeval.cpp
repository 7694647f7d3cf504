#include "application/data/readers/semeval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "application/data/readers/format.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

/// Length of the id of "17<tab>"sentence"", 0 when the line does not begin a block.
std::size_t id_length(std::string_view line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos || tab == 0) return 0;
  const bool digits = std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(tab),
                                  [](unsigned char c) { return std::isdigit(c); });
  return digits ? tab : 0;
}

class SemevalReader final : public LineRecordReader {
 public:
  using LineRecordReader::LineRecordReader;

  std::optional<Formulation> formulation() const override { return Formulation::kTextClassification; }
  std::string where() const override { return lines_.where(begin_); }

  bool next(Record& record) override {
    while (!held_ && read()) held_ = !line_.empty();
    if (!held_) return false;
    held_ = false;
    begin_ = lines_.line();
    const std::size_t id = id_length(line_);
    if (id == 0) throw DataError(fmt::format("{}: a block must begin with a number, a tab and the sentence", where()));
    record.clear();
    record.id = line_.substr(0, id);
    record.text = line_.substr(id + 1);
    if (record.text.size() >= 2 && record.text.front() == '"' && record.text.back() == '"') {
      record.text = record.text.substr(1, record.text.size() - 2);
    }
    if (read() && !line_.empty()) {
      held_ = id_length(line_) != 0;
      if (!held_ && !line_.starts_with("Comment")) record.label = line_;
      while (!held_ && read() && !line_.empty()) held_ = id_length(line_) != 0;
    }
    ++report_.records;
    return true;
  }

 private:
  bool read() {
    std::string_view line;
    if (!lines_.next(line)) return false;
    line = line.substr(0, line.find_last_not_of(" \t") + 1);
    line_.assign(line);
    return true;
  }

  std::string line_;
  bool held_ = false;  // line_ begins a block that was not returned yet
  std::uint64_t begin_ = 0;
};

int looks_like_semeval(const FileHead& head) {
  const auto lines = head.lines(1);
  return !lines.empty() && id_length(lines.front()) != 0 && lines.front().find("<e1>") != std::string_view::npos
             ? kCertain
             : kNo;
}

const FormatRegistration kSemeval{
    {"semeval", "SemEval-2010 task 8: sentences with marked entities and their relation", looks_like_semeval,
     [](const std::filesystem::path& path, const ReaderOptions&) -> std::unique_ptr<RecordReader> {
       return std::make_unique<SemevalReader>(path);
     }}};

}  // namespace
}  // namespace chorus::inline readers
