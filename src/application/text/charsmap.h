#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline text {

/// SentencePiece's compiled normalization rules ("precompiled_charsmap"): a double-array trie (Darts-clone layout) from
/// byte strings to positions in a pool of NUL-terminated replacements.
///
///   bytes 0..3  size of the trie in bytes, little-endian; then the trie's 32-bit units; then the pool
///
/// Parsed here with every index checked: sentencepiece does not export it, and tokenizer.json contains the same bytes.
class Charsmap {
 public:
  /// std::invalid_argument with the reason when the bytes are damaged.
  explicit Charsmap(std::string_view bytes);

  /// The replacement by the shortest rule that is a prefix of `part`, as in the Hugging Face library; nullopt when no
  /// rule applies.
  std::optional<std::string_view> replacement(std::string_view part) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string pool_;
};

}  // namespace chorus::inline text
