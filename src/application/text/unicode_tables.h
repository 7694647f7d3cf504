#pragma once

#include <cstddef>
#include <cstdint>

/// The properties that the Hugging Face tokenizers library gives every code point: data for unicode.h, written by
/// tools/make_unicode_tables. The system's Unicode library has another version of Unicode, so its answers differ for a
/// few hundred characters.
namespace chorus::unicode {

/// Bits of a class.
enum Property : std::uint16_t {
  kIsLetter = 1,             ///< \p{L} of GPT-2's splitting expression
  kIsNumber = 2,             ///< \p{N}
  kIsSpace = 4,              ///< White_Space
  kIsBertPunctuation = 8,    ///< a word of its own for BERT
  kIsControl = 16,           ///< removed by BERT
  kIsNonspacingMark = 32,    ///< removed by BERT with the accents
  kIsMark = 64,              ///< removed by the StripAccents normalizer
  kIsWord = 128,             ///< \w around added tokens that are single words
  kDecomposes = 256,         ///< NFD differs
  kDecomposesFurther = 512,  ///< NFKD differs
  kIsCombining = 1024,       ///< has a combining class
};

extern const std::uint16_t kClasses[];
/// Pairs (how many code points, index in kClasses), from U+0000 up.
extern const std::uint16_t kClassRuns[];
extern const std::size_t kClassRunCount;

/// Every `step`-th code point from `first` to `last` is `difference` below its lower-case form. Sorted, disjoint but
/// for runs of step 2.
struct LowerRun {
  std::uint32_t first, last;
  std::uint8_t step;
  std::int32_t difference;
};
extern const LowerRun kLowerRuns[];
extern const std::size_t kLowerRunCount;

}  // namespace chorus::unicode
