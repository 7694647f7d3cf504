#include "application/text/vocabulary.h"

#include <algorithm>
#include <bit>

namespace chorus::inline text {

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  slots_.assign(std::bit_ceil(tokens_.size() * 2 + 2), kNone);
  mask_ = slots_.size() - 1;
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    if (token.empty()) continue;
    longest_ = std::max(longest_, token.size());
    std::size_t i = hash_bytes(token) & mask_;
    while (slots_[i] != kNone && tokens_[static_cast<std::size_t>(slots_[i])] != token) i = (i + 1) & mask_;
    slots_[i] = static_cast<std::int32_t>(id);
  }
}

}  // namespace chorus::inline text
