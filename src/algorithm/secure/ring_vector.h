#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "algorithm/secure/primitives.h"
#include "core/base/large_vector.h"

namespace chorus::inline secure {

/// A vector over Z_2^32 or Z_2^64, the ring in which inputs are masked and summed: additions wrap around, as machine
/// words do. On the wire it is its words, little-endian.
class RingVector {
 public:
  /// Zeros. `bits` is 32 or 64.
  RingVector(unsigned bits, std::size_t size);

  unsigned bits() const { return words_.index() == 0 ? 32 : 64; }
  std::size_t size() const;
  std::uint64_t at(std::size_t i) const;
  void set(std::size_t i, std::uint64_t value);  ///< modulo 2^bits

  ByteView bytes() const;
  /// Calls f with the words as a span of std::uint32_t or std::uint64_t.
  template <typename F>
  decltype(auto) words(F&& f) {
    return std::visit([&](auto& all) { return f(std::span(all.data(), all.size())); }, words_);
  }
  template <typename F>
  decltype(auto) words(F&& f) const {
    return std::visit([&](const auto& all) { return f(std::span(all.data(), all.size())); }, words_);
  }
  /// The elements [begin, begin + count).
  RingVector part(std::size_t begin, std::size_t count) const;
  /// Overwrites those from `begin` on with a vector of the same ring.
  void place(std::size_t begin, const RingVector& part);
  /// Adds a vector in its wire form, which must have exactly as many bytes as this one.
  void add(ByteView bytes);
  void add(const RingVector& other) { add(other.bytes()); }
  /// Adds or subtracts the mask that `key` expands to: the key stream of AES-128-CTR (NIST SP 800-38A) as words of the
  /// ring, uniform in all of it. The first half of the key is AES's, the second half its first counter block; a key is
  /// used for one mask only.
  void add_mask(const Key& key, bool subtract);

  /// Overwrites the words, and has none any more.
  void forget();

  bool operator==(const RingVector&) const = default;

 private:
  std::variant<LargeVector<std::uint32_t>, LargeVector<std::uint64_t>> words_;
};

}  // namespace chorus::inline secure
