#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "application/text/subword_model.h"

namespace chorus::inline text {

/// Caches the pieces of short words in a fixed table: a new word replaces an older one with the same hash, so memory
/// does not grow. Not thread-safe.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 24;
  static constexpr std::size_t kMaxPieces = 6;

  struct Slot {
    std::array<std::uint64_t, 3> key{};
    std::uint8_t size = 0;  ///< bytes of the word; 0: free
    std::uint8_t count = 0;
    std::array<std::uint8_t, kMaxPieces> begin{};
    std::array<std::uint8_t, kMaxPieces> end{};
    std::array<std::int32_t, kMaxPieces> ids{};
  };

  WordCache() : slots_(std::size_t{1} << kBits) {}

  /// The slot for a word of 1 to kMaxBytes bytes; it holds the word when the second is true.
  std::pair<Slot*, bool> find(std::string_view word) {
    std::array<std::uint64_t, 3> key{};
    std::memcpy(key.data(), word.data(), word.size());
    std::uint64_t hash = (key[0] ^ (key[1] * 0xA0761D6478BD642FULL) ^ (key[2] * 0xE7037ED1A0B428DBULL) ^ word.size());
    hash *= 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93ULL;
    Slot& slot = slots_[hash >> (64 - kBits)];
    if (slot.size == word.size() && slot.key == key) return {&slot, true};
    pending_ = key;
    return {&slot, false};
  }

  /// Stores the last looked-up word in its slot, unless it has too many pieces.
  void store(Slot& slot, std::string_view word, const std::vector<Piece>& pieces) {
    if (pieces.size() > kMaxPieces) return;
    slot.key = pending_;
    slot.size = static_cast<std::uint8_t>(word.size());
    slot.count = static_cast<std::uint8_t>(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      slot.begin[i] = static_cast<std::uint8_t>(pieces[i].begin);
      slot.end[i] = static_cast<std::uint8_t>(pieces[i].end);
      slot.ids[i] = pieces[i].id;
    }
  }

 private:
  static constexpr int kBits = 14;
  std::vector<Slot> slots_;
  std::array<std::uint64_t, 3> pending_{};
};

}  // namespace chorus::inline text
