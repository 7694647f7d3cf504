#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::text {

/// SentencePiece's compiled normalisation rules ("precompiled_charsmap"): a double-array trie (Darts-clone layout) from
/// byte strings to positions in a pool of NUL-terminated replacements.
///
///   bytes 0..3  size of the trie in bytes, little-endian; then the trie's 32-bit units; then the pool
///
/// Read by hand, with every index checked: sentencepiece does not export it, and the same bytes stand in
/// tokenizer.json.
class Charsmap {
 public:
  /// Throws std::invalid_argument with the reason when the bytes are damaged.
  explicit Charsmap(std::string_view bytes);

  /// What the shortest rule that is a prefix of `part` puts in its place; nothing when no rule applies. (The shortest,
  /// because the Hugging Face library takes it so.)
  std::optional<std::string_view> replacement(std::string_view part) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string pool_;
};

}  // namespace chorus::text
