#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace chorus::inline base {

/// Names one stream of random values. Keys that differ in any field give independent streams; the same key gives the
/// same values on every machine, whatever else was drawn before. `purpose` is a short constant such as "shuffle".
struct StreamKey {
  std::uint64_t seed = 0;
  std::string_view purpose;
  std::uint64_t round = 0;
  std::uint64_t client = 0;
  std::uint64_t step = 0;
};

/// A counter-based stream: Philox 4x32-10 (Salmon et al., SC 2011), the key from (seed, purpose), the high half of the
/// counter from (round, client, step). Distributions are implemented here because those of <random> differ between
/// standard libraries. Not thread-safe; copy it or make another, it is 48 bytes.
///
///     RandomStream stream({.seed = config.seed, .purpose = "shuffle", .round = r, .client = c});
///     stream.shuffle(std::span(order));
class RandomStream {
 public:
  using result_type = std::uint32_t;

  explicit RandomStream(const StreamKey& key);

  result_type operator()() { return next_u32(); }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  std::uint32_t next_u32() {
    if (used_ == 4) refill();
    return block_[used_++];
  }
  std::uint64_t next_u64() {
    const std::uint64_t low = next_u32();
    return low | (static_cast<std::uint64_t>(next_u32()) << 32);
  }

  /// Equals repeated calls of next_u32, but faster.
  void fill(std::span<std::uint32_t> out);

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }
  /// Uniform in 0 .. n-1, without bias (Lemire). n must not be 0.
  std::uint64_t below(std::uint64_t n);
  /// Standard normal (Box-Muller; both values are used).
  double normal();
  /// Gamma(shape, 1), shape > 0 (Marsaglia and Tsang, 2000). May underflow to 0 for a tiny shape.
  double gamma(double shape);
  /// A point of the simplex ~ Dirichlet(alpha); entries with alpha 0 get 0. Drawn in the log domain, so that alphas
  /// far below 1 still give a valid point (nearly one-hot) and never NaN. At least one alpha must be positive.
  std::vector<double> dirichlet(std::span<const double> alpha);
  /// An index with probability proportional to its weight; weights must not be negative, their sum must be positive.
  std::size_t categorical(std::span<const double> weights);

  /// Fisher-Yates.
  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

  /// A 64-bit hash of this stream's key: the seed for foreign generators (LibTorch's).
  std::uint64_t fingerprint() const { return key_ ^ (high_ * 0x9E3779B97F4A7C15ULL); }

 private:
  void refill();
  double log_gamma_variate(double shape);

  std::uint64_t key_;
  std::uint64_t high_;         // upper half of the counter
  std::uint64_t counter_ = 0;  // lower half: blocks generated so far
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
  bool has_spare_ = false;
  double spare_ = 0;
};

/// One Philox 4x32-10 block, exposed for its known-answer test and for kernels that compute many at once.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Mixes two 64-bit words into one (SplitMix64's finaliser over their combination). Stable: used in stream keys.
std::uint64_t mix(std::uint64_t a, std::uint64_t b);

/// A stable 64-bit hash of a short string (FNV-1a, then mixed). Stable: used in stream keys.
std::uint64_t hash_name(std::string_view text);

}  // namespace chorus::inline base
