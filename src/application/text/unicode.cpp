#include "application/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include "application/text/unicode_tables.h"

namespace chorus::unicode {

namespace {

constexpr Kind O = Kind::kOther;
constexpr Kind L = Kind::kLetter;
constexpr Kind N = Kind::kNumber;
constexpr Kind S = Kind::kSpace;

/// The class of each code point: blocks of 256, equal ones stored once.
class ClassTable {
 public:
  ClassTable() {
    std::map<std::array<std::uint8_t, kBlock>, std::uint16_t> known;
    std::array<std::uint8_t, kBlock> block{};
    std::size_t at = 0;
    for (std::size_t run = 0; run < kClassRunCount; ++run) {
      for (std::size_t i = 0; i < kClassRuns[2 * run]; ++i) {
        block[at % kBlock] = static_cast<std::uint8_t>(kClassRuns[2 * run + 1]);
        if (++at % kBlock != 0) continue;
        const auto [entry, fresh] = known.emplace(block, static_cast<std::uint16_t>(known.size()));
        if (fresh) blocks_.insert(blocks_.end(), block.begin(), block.end());
        index_[at / kBlock - 1] = entry->second;
      }
    }
  }
  std::uint16_t operator[](char32_t code) const {
    if (code > 0x10FFFF) return 0;
    return kClasses[blocks_[index_[code / kBlock] * kBlock + code % kBlock]];
  }

 private:
  static constexpr std::size_t kBlock = 256;
  std::array<std::uint16_t, 0x110000 / kBlock> index_{};
  std::vector<std::uint8_t> blocks_;
};

bool has(char32_t code, std::uint16_t properties) {
  static const ClassTable table;
  return (table[code] & properties) != 0;
}

std::vector<char32_t> lower_table() {
  std::vector<char32_t> table(kLowerRuns[kLowerRunCount - 1].last + 1);
  std::iota(table.begin(), table.end(), char32_t{0});
  for (std::size_t i = 0; i < kLowerRunCount; ++i) {
    const LowerRun& run = kLowerRuns[i];
    for (std::uint32_t code = run.first; code <= run.last; code += run.step) {
      table[code] = static_cast<char32_t>(static_cast<std::int64_t>(code) + run.difference);
    }
  }
  return table;
}

}  // namespace

// clang-format off
const Kind kAsciiKinds[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O};
// clang-format on

Kind kind_of_wide(char32_t code) {
  if (has(code, kIsLetter)) return Kind::kLetter;
  if (has(code, kIsNumber)) return Kind::kNumber;
  return has(code, kIsSpace) ? Kind::kSpace : Kind::kOther;
}

bool is_bert_punctuation(char32_t code) { return has(code, kIsBertPunctuation); }
bool is_control(char32_t code) { return has(code, kIsControl); }

bool is_cjk(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

bool is_nonspacing_mark(char32_t code) { return has(code, kIsNonspacingMark); }
bool is_mark(char32_t code) { return has(code, kIsMark); }
bool is_word(char32_t code) { return has(code, kIsWord); }

Lowered lower(char32_t code) {
  if (code < 128) return {code >= 'A' && code <= 'Z' ? code + 32 : code, 0};
  if (code == 0x130) return {'i', 0x307};
  static const std::vector<char32_t> table = lower_table();
  return {code < table.size() ? table[code] : code, 0};
}

std::size_t decompose(char32_t code, bool compatibility, char32_t* out) {
  if (!has(code, compatibility ? kDecomposesFurther : kDecomposes)) {
    out[0] = code;
    return 1;
  }
  std::array<utf8proc_int32_t, kMaxDecomposition> buffer;
  int boundary = 0;
  const int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), buffer.data(),
                                         static_cast<utf8proc_ssize_t>(buffer.size()),
                                         static_cast<utf8proc_option_t>(options), &boundary);
  if (n <= 0 || static_cast<std::size_t>(n) > buffer.size()) {
    out[0] = code;
    return 1;
  }
  std::copy_n(buffer.begin(), n, out);
  return static_cast<std::size_t>(n);
}

int combining_class(char32_t code) {
  return has(code, kIsCombining) ? utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class : 0;
}

bool grapheme_break(char32_t left, char32_t right, std::int32_t& state) {
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right),
                                          &state);
}

}  // namespace chorus::unicode
