#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline text {

/// A fast hash for short strings. Not resistant to flooding: look-ups use linear probing in tables that are at most
/// half full.
inline std::uint64_t hash_bytes(std::string_view text) {
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL ^ text.size();
  const char* p = text.data();
  std::size_t n = text.size();
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    hash = mix(hash ^ word, 0xE7037ED1A0B428DBULL);
  }
  std::uint64_t tail = 0;
  if (n > 0) std::memcpy(&tail, p, n);
  return mix(hash ^ tail, 0xA0761D6478BD642FULL);
}

/// Token <-> id. A repeated token keeps its last id, as in Python's dict.
class Vocabulary {
 public:
  static constexpr std::int32_t kNone = -1;

  Vocabulary() = default;
  /// `tokens` by id; "" marks an id without a token.
  explicit Vocabulary(std::vector<std::string> tokens);

  std::int32_t find(std::string_view token) const {
    for (std::size_t i = hash_bytes(token) & mask_;; i = (i + 1) & mask_) {
      const std::int32_t id = slots_[i];
      if (id == kNone || tokens_[static_cast<std::size_t>(id)] == token) return id;
    }
  }
  const std::vector<std::string>& tokens() const { return tokens_; }
  std::size_t size() const { return tokens_.size(); }
  /// Bytes of the longest token.
  std::size_t longest() const { return longest_; }

 private:
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> slots_{kNone};
  std::size_t mask_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace chorus::inline text
