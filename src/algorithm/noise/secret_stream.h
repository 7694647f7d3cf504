#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace chorus::inline noise {

/// Uniform random bits that are unpredictable to others: ChaCha20 (libsodium) with a key from the operating system. The
/// key exists only in this object, is wiped with it and is never saved, so a resumed or restored run draws different
/// noise. Use it for noise that protects people, and RandomStream (core/base/rng.h) for everything that must be
/// reproducible. Not thread-safe; 2^64 blocks.
///
///     SecretStream stream;
///     const std::uint64_t x = stream.below(6);
class SecretStream {
 public:
  using Key = std::array<std::uint8_t, 32>;
  using Wide = unsigned __int128;

  SecretStream();                         ///< a fresh key
  explicit SecretStream(const Key& key);  ///< for known-answer tests only
  ~SecretStream();
  SecretStream(const SecretStream&) = delete;  // copies would draw the same bits
  SecretStream& operator=(const SecretStream&) = delete;

  std::uint64_t next_u64() {
    if (used_ == block_.size()) refill();
    return block_[used_++];
  }
  /// Uniform in 0 .. n-1, without bias. n must not be 0.
  Wide below(Wide n);
  std::uint64_t below(std::uint64_t n);
  /// Uniform in (0, 1), 53 bits.
  double uniform();

 private:
  void refill();

  Key key_;
  std::uint64_t blocks_ = 0;
  std::array<std::uint64_t, 512> block_{};
  std::size_t used_ = 512;
};

}  // namespace chorus::inline noise
