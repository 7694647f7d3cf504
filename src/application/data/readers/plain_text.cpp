#include "application/data/readers/plain_text.h"

#include <fmt/format.h>

#include <memory>

#include "application/data/readers/format.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

bool blank_line(std::string_view line) { return line.find_first_not_of(" \t\f") == std::string_view::npos; }

class TextReader final : public LineRecordReader {
 public:
  TextReader(const std::filesystem::path& path, const ReaderOptions& options)
      : LineRecordReader(path), paragraphs_(options.paragraphs) {}

  std::optional<Formulation> formulation() const override { return Formulation::kLanguageModel; }
  std::string where() const override { return lines_.where(begin_); }

  bool next(Record& record) override {
    record.clear();
    for (std::string_view line; lines_.next(line);) {
      if (blank_line(line)) {
        if (record.text.empty()) continue;
        break;
      }
      if (record.text.empty()) {
        begin_ = lines_.line();
      } else {
        record.text += '\n';
      }
      record.text += line;
      if (!paragraphs_) break;
    }
    if (record.text.empty()) return false;
    ++report_.records;
    return true;
  }

 private:
  bool paragraphs_;
  std::uint64_t begin_ = 0;
};

std::pair<std::filesystem::path, std::filesystem::path> two_paths(const std::filesystem::path& path) {
  const std::string both = path.string();
  const std::size_t comma = both.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == both.size()) {
    throw ConfigError(fmt::format("'{}': parallel text needs two files, SOURCE,TARGET", both));
  }
  return {both.substr(0, comma), both.substr(comma + 1)};
}

class ParallelReader final : public RecordReader {
 public:
  explicit ParallelReader(const std::pair<std::filesystem::path, std::filesystem::path>& paths)
      : source_(paths.first), target_(paths.second) {}

  std::optional<Formulation> formulation() const override { return Formulation::kSeq2Seq; }
  std::string where() const override { return source_.where(); }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, source_.path(), source_.replaced());
    note_replaced(report, target_.path(), target_.replaced());
    return report;
  }

  bool next(Record& record) override {
    std::string_view source;
    std::string_view target;
    const bool more = source_.next(source);
    if (target_.next(target) != more) {
      const LineReader& shorter = more ? target_ : source_;
      const LineReader& longer = more ? source_ : target_;
      throw DataError(fmt::format("{} ends after {} lines, but {} continues; both need the same number of lines",
                                  shorter.path().string(), shorter.line(), longer.path().string()));
    }
    if (!more) return false;
    record.clear();
    record.text = source;
    record.second = target;
    ++report_.records;
    return true;
  }

 private:
  LineReader source_;
  LineReader target_;
  ReadReport report_;
};

const FormatRegistration kPlainText{
    {"text", "plain text for language models, one example per line or paragraph",
     [](const FileHead& head) -> int {
       if (head.folder || head.text.find('\0') != std::string::npos) return kNo;
       return head.extension() == ".txt" || head.extension() == ".text" || head.extension() == ".raw" ? kByName : kNo;
     },
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<TextReader>(path, options);
     }}};

const FormatRegistration kParallel{
    {"parallel", "two plain text files, source and target lines: SOURCE,TARGET",
     [](const FileHead&) -> int { return kNo; },
     [](const std::filesystem::path& path, const ReaderOptions&) -> std::unique_ptr<RecordReader> {
       return std::make_unique<ParallelReader>(two_paths(path));
     }}};

}  // namespace
}  // namespace chorus::inline readers
