#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "algorithm/secure/primitives.h"

namespace chorus::inline secure {

/// One client's part of a secret: four elements of the field, as is the secret itself.
using Share = Secret<32>;

/// A uniform secret that can be shared: four elements of the field, 244 bits. Keys are derived from it.
Key random_seed();

/// A share and the point x >= 1 at which it was taken.
struct PlacedShare {
  std::uint32_t x = 0;
  const Share* share = nullptr;
};

/// Shamir's secret sharing (1979) over the prime field of 2^61 - 1: any `threshold` shares give the secret, fewer say
/// nothing about it. The time for arithmetic on secrets does not depend on their values. A share is for a point x >= 1,
/// never 0, where the secret itself is.
///
///     const Key seed = random_seed();
///     std::vector<Share> shares = split_secret(seed, 7, points);
///     std::optional<Key> again = SecretJoiner().join(placed, 7);
std::vector<Share> split_secret(const Key& secret, std::size_t threshold, std::span<const std::uint32_t> points);

/// Reconstructs secrets. Remembers Lagrange's coefficients, which depend on the points alone: many secrets are shared
/// among the same clients. Not thread-safe.
class SecretJoiner {
 public:
  /// Uses the first `threshold` of the shares. Nothing when there are fewer, a point is 0 or occurs twice, or a share
  /// is not one. A wrong share gives a wrong secret: compare the result with something known of it.
  std::optional<Key> join(std::span<const PlacedShare> shares, std::size_t threshold);

 private:
  std::map<std::vector<std::uint32_t>, std::vector<std::uint64_t>> coefficients_;
};

}  // namespace chorus::inline secure
