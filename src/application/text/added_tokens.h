#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "application/text/tokenizer_spec.h"
#include "application/text/trie.h"

namespace chorus::inline text {

/// Finds added tokens in a text: leftmost-longest, including adjacent whitespace where a token requires it.
class AddedTokenFinder {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };

  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Replaces `matches` by all matches in `text`, in order and not overlapping.
  void find(std::string_view text, std::vector<Match>& matches) const;

 private:
  std::vector<AddedToken> tokens_;
  Trie trie_;
  std::array<bool, 256> starts_{};
};

}  // namespace chorus::inline text
