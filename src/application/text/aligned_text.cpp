#include "application/text/aligned_text.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace chorus::inline text {

void AlignedText::clear(bool with_alignment) {
  bytes.clear();
  begin.clear();
  end.clear();
  aligned = with_alignment;
  ascii = true;
}

std::uint32_t AlignedText::assign(std::string_view text, std::uint32_t first, bool with_alignment) {
  bytes.assign(text);
  aligned = with_alignment;
  unsigned char seen = 0;
  for (const char c : text) seen = static_cast<unsigned char>(seen | static_cast<unsigned char>(c));
  ascii = seen < 0x80;
  if (!aligned) {
    begin.clear();
    end.clear();
    return first;
  }
  begin.resize(text.size());
  end.resize(text.size());
  if (ascii) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      begin[i] = first + static_cast<std::uint32_t>(i);
      end[i] = first + static_cast<std::uint32_t>(i) + 1;
    }
    return first + static_cast<std::uint32_t>(text.size());
  }
  std::uint32_t position = first - 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    position += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    begin[i] = position;
    end[i] = position + 1;
  }
  return position + 1;
}

void AlignedText::push(char32_t code, const AlignedText& source, std::size_t at) {
  char encoded[4];
  const std::size_t size = utf8::encode(code, encoded);
  bytes.append(encoded, size);
  if (size > 1) ascii = false;
  if (!aligned) return;
  begin.insert(begin.end(), size, source.begin[at]);
  end.insert(end.end(), size, source.end[at]);
}

void AlignedText::copy(const AlignedText& source, std::size_t from, std::size_t to) {
  bytes.append(source.bytes, from, to - from);
  if (ascii && !source.ascii) {
    ascii = std::all_of(source.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                        source.bytes.begin() + static_cast<std::ptrdiff_t>(to),
                        [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  }
  if (!aligned) return;
  const auto first = static_cast<std::ptrdiff_t>(from);
  const auto last = static_cast<std::ptrdiff_t>(to);
  begin.insert(begin.end(), source.begin.begin() + first, source.begin.begin() + last);
  end.insert(end.end(), source.end.begin() + first, source.end.begin() + last);
}

Rewriter::Rewriter(const AlignedText& source, AlignedText& out) : source_(source), out_(out) {
  out_.clear(source.aligned);
}

void Rewriter::consume(std::size_t characters) {
  const auto& bytes = source_.bytes;
  for (; characters > 0 && cursor_ < bytes.size(); --characters) {
    ++cursor_;
    while (cursor_ < bytes.size() && (static_cast<unsigned char>(bytes[cursor_]) & 0xC0) == 0x80) ++cursor_;
  }
}

void Rewriter::put(char32_t code, int change) {
  last_ = out_.bytes.size();
  last_change_ = change;
  char encoded[4];
  const std::size_t size = utf8::encode(code, encoded);
  out_.bytes.append(encoded, size);
  if (size > 1) out_.ascii = false;
  if (out_.aligned) {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    const bool inserted = change > 0;
    if (!source_.bytes.empty() && (!inserted || cursor_ > 0)) {
      const std::size_t at = inserted ? cursor_ - 1 : std::min(cursor_, source_.bytes.size() - 1);
      first = source_.begin[at];
      last = source_.end[at];
    }
    out_.begin.insert(out_.begin.end(), size, first);
    out_.end.insert(out_.end.end(), size, last);
  }
  if (change <= 0) consume(1 + static_cast<std::size_t>(-change));
}

void Rewriter::amend_last(int change) {
  if (out_.bytes.empty() || change >= 0) return;
  if (last_change_ > 0 && out_.aligned && cursor_ < source_.bytes.size()) {
    for (std::size_t i = last_; i < out_.bytes.size(); ++i) {
      out_.begin[i] = source_.begin[cursor_];
      out_.end[i] = source_.end[cursor_];
    }
  }
  last_change_ += change;
  consume(static_cast<std::size_t>(-change));
}

void Rewriter::skip(std::size_t count) { consume(count); }

bool Rewriter::copy_run(std::size_t from, std::size_t to) {
  if (cursor_ != from || from == to) return from == to;
  last_ = out_.bytes.size() + (to - from) - 1;
  last_change_ = 0;
  out_.copy(source_, from, to);
  cursor_ = to;
  return true;
}

}  // namespace chorus::inline text
