#include "application/data/readers/json_stream.h"

#include <fmt/format.h>

#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

JsonStream::JsonStream(const std::filesystem::path& path) : input_(path), buffer_(1U << 18) {
  fill();
  const std::string_view head(buffer_.data(), end_);
  refuse_wide_text(head, path);
  if (head.starts_with("\xEF\xBB\xBF")) begin_ = 3;
}

bool JsonStream::fill() {
  if (finished_) return false;
  begin_ = 0;
  end_ = input_.read(buffer_.data(), buffer_.size());
  finished_ = end_ == 0;
  return !finished_;
}

std::string JsonStream::where() const { return fmt::format("{}:{}", input_.path().string(), value_line_); }

void JsonStream::fail(std::string_view what) {
  value_line_ = line_;
  throw DataError(fmt::format("{}: unexpected JSON: {}", where(), what));
}

char JsonStream::peek() {
  while (true) {
    if (begin_ == end_ && !fill()) return 0;
    const char c = buffer_[begin_];
    if (!is_space(c)) return c;
    line_ += c == '\n' ? 1 : 0;
    ++begin_;
  }
}

char JsonStream::take() {
  const char c = peek();
  if (c == 0 && begin_ == end_) fail("the file ends too early");
  ++begin_;
  return c;
}

void JsonStream::enter(char bracket) {
  const char c = take();
  if (c != bracket) fail(fmt::format("expected '{}', found '{}'", bracket, c));
  fresh_.push_back(true);
}

bool JsonStream::next_item(char close) {
  check(!fresh_.empty(), "no open bracket");
  const char c = take();
  if (c == close) {
    fresh_.pop_back();
    return false;
  }
  if (fresh_.back()) {
    --begin_;  // put it back; it is still in the buffer
    fresh_.back() = false;
  } else if (c != ',') {
    fail(fmt::format("expected ',' or '{}', found '{}'", close, c));
  }
  return true;
}

bool JsonStream::next_key(std::string& key) {
  if (!next_item('}')) return false;
  if (peek() != '"') fail("expected a key in quotes");
  key = json_string(value(), where());
  if (take() != ':') fail(fmt::format("expected ':' after the key \"{}\"", key));
  return true;
}

bool JsonStream::next_element() { return next_item(']'); }

void JsonStream::scan(std::string* to) {
  char c = peek();
  if (c == 0) fail("the file ends too early");
  value_line_ = line_;
  std::size_t depth = 0;
  bool quoted = false;
  bool escaped = false;
  while (true) {
    // One pass over the buffer; the value is copied at once.
    std::size_t at = begin_;
    bool done = false;
    for (; at < end_ && !done; ++at) {
      c = buffer_[at];
      line_ += c == '\n' ? 1 : 0;
      if (quoted) {
        if (escaped) {
          escaped = false;
        } else if (c == '\\') {
          escaped = true;
        } else if (c == '"') {
          quoted = false;
          done = depth == 0;
        }
      } else if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_space(c))) {
        done = true;  // the delimiter after a number or word is not part of it
        line_ -= c == '\n' ? 1 : 0;
        --at;
      } else if (c == '}' || c == ']') {
        done = --depth == 0;
      }
    }
    if (to != nullptr) to->append(buffer_.data() + begin_, at - begin_);
    begin_ = at;
    if (done) return;
    if (!fill()) {
      if (depth == 0 && !quoted) return;
      line_ = value_line_;
      fail("the value that begins here is not closed");
    }
  }
}

std::string_view JsonStream::value() {
  value_.clear();
  scan(&value_);
  return clean_utf8(value_, cleaned_, replaced_);
}

void JsonStream::skip() { scan(nullptr); }

void JsonStream::expect_end() {
  if (peek() != 0) fail("something follows the end of the value");
}

}  // namespace chorus::inline readers
