#include "application/metrics/score_lines.h"

#include <fmt/format.h>
#include <zlib.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline metrics {

namespace {
constexpr std::size_t kChunk = std::size_t{1} << 16;
constexpr std::size_t kLongestLine = std::size_t{1} << 30;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
}  // namespace

struct ScoreLines::File {
  explicit File(const std::string& path) : handle(gzopen(path.c_str(), "rb")) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (handle) gzclose_r(handle);
  }
  gzFile handle;
};

ScoreLines::ScoreLines(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw DataError(fmt::format("{}: no such file", path));
  if (std::filesystem::is_directory(path, ignored)) throw DataError(fmt::format("{}: is a folder; name a file", path));
  file_ = std::make_unique<File>(path);
  if (!file_->handle) throw DataError(fmt::format("{}: cannot be opened; check its permissions", path));
}

ScoreLines::~ScoreLines() = default;

// Appends more bytes to the buffer and drops what precedes the last line.
bool ScoreLines::fill() {
  if (ended_) return false;
  buffer_.erase(0, last_);
  at_ -= last_;
  last_ = 0;
  if (buffer_.size() > kLongestLine) throw DataError(fmt::format("{}:{}: the line is above 1 GiB", path_, number_ + 1));
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kChunk);
  const int count = gzread(file_->handle, buffer_.data() + size, static_cast<unsigned>(kChunk));
  int status = Z_OK;
  const char* message = gzerror(file_->handle, &status);
  if (count < 0 || (status != Z_OK && status != Z_STREAM_END))
    throw DataError(fmt::format("{}: the file is damaged after line {} ({})", path_, number_, message));
  buffer_.resize(size + static_cast<std::size_t>(count));
  ended_ = count == 0;
  return count > 0;
}

bool ScoreLines::next(std::string& line) {
  last_ = at_;
  std::size_t searched = at_;
  std::size_t end;
  while ((end = buffer_.find('\n', searched)) == std::string::npos) {
    const std::size_t seen = buffer_.size() - last_;
    if (!fill()) break;
    searched = seen;
  }
  if (end == std::string::npos) {
    if (at_ == buffer_.size()) return false;
    end = buffer_.size();
  }
  std::string_view text = std::string_view(buffer_).substr(at_, end - at_);
  at_ = std::min(end + 1, buffer_.size());
  ++number_;
  if (number_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (!utf8::valid(text)) throw DataError(fmt::format("{}: the line is not UTF-8 text", place()));
  line = text;
  return true;
}

void ScoreLines::put_back() {
  check(number_ > 0, "no line was read yet");
  at_ = last_;
  --number_;
}

std::string ScoreLines::place() const { return fmt::format("{}:{}", path_, number_); }

}  // namespace chorus::inline metrics
