#include "application/data/readers/line_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline readers {
namespace {

constexpr std::size_t kBuffer = 1U << 18;
constexpr std::size_t kLongestLine = 1U << 30;

}  // namespace

void refuse_wide_text(std::string_view head, const std::filesystem::path& path) {
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF") ||
      head.starts_with(std::string_view("\0\0\xFE\xFF", 4))) {
    throw DataError(
        fmt::format("{}: is UTF-16 or UTF-32; convert it, for example with iconv -f UTF-16 -t UTF-8", path.string()));
  }
}

std::string_view clean_utf8(std::string_view text, std::string& buffer, std::uint64_t& replaced) {
  if (utf8::valid(text)) return text;
  buffer.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    const char32_t code = utf8::next(text, at);
    if (code == utf8::kReplacement) {
      const std::string_view bytes = text.substr(before, at - before);
      if (bytes != "\xEF\xBF\xBD") ++replaced;
    }
    utf8::append(buffer, code);
  }
  return buffer;
}

LineReader::LineReader(const std::filesystem::path& path) : input_(path), buffer_(kBuffer) {
  fill();
  const std::string_view head(buffer_.data(), end_);
  refuse_wide_text(head, path);
  if (head.starts_with("\xEF\xBB\xBF")) begin_ = 3;
}

bool LineReader::fill() {
  if (finished_) return false;
  begin_ = 0;
  end_ = input_.read(buffer_.data(), buffer_.size());
  finished_ = end_ == 0;
  return !finished_;
}

std::string LineReader::where(std::uint64_t line) const { return fmt::format("{}:{}", input_.path().string(), line); }

std::string_view LineReader::clean(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find('\0') != std::string_view::npos) {
    throw DataError(
        fmt::format("{}: contains a zero byte; not a text file (or UTF-16 without a byte order mark)", where()));
  }
  return clean_utf8(line, cleaned_, replaced_);
}

bool LineReader::next(std::string_view& line) {
  if (begin_ == end_ && !fill()) return false;
  ++line_;
  const auto find = [&] { return static_cast<const char*>(std::memchr(buffer_.data() + begin_, '\n', end_ - begin_)); };
  const char* newline = find();
  if (newline != nullptr) {
    const std::size_t stop = static_cast<std::size_t>(newline - buffer_.data());
    line = clean({buffer_.data() + begin_, stop - begin_});
    begin_ = stop + 1;
    return true;
  }
  long_line_.clear();
  do {
    newline = find();
    const std::size_t stop = newline == nullptr ? end_ : static_cast<std::size_t>(newline - buffer_.data());
    long_line_.append(buffer_.data() + begin_, stop - begin_);
    begin_ = newline == nullptr ? end_ : stop + 1;
    if (long_line_.size() > kLongestLine) {
      throw DataError(fmt::format("{}: the line is longer than 1 GiB; is this a text file?", where()));
    }
  } while (newline == nullptr && fill());
  line = clean(long_line_);
  return true;
}

ReadReport LineRecordReader::report() const {
  ReadReport report = report_;
  note_replaced(report, lines_.path(), lines_.replaced());
  return report;
}

void note_replaced(ReadReport& report, const std::filesystem::path& path, std::uint64_t replaced) {
  report.replaced_bytes += replaced;
  if (replaced == 0) return;
  report.notes.push_back(fmt::format("{}: {} invalid UTF-8 sequence{} replaced by U+FFFD; check the encoding",
                                     path.string(), replaced, replaced == 1 ? " was" : "s were"));
}

}  // namespace chorus::inline readers
