#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "algorithm/secure/primitives.h"

namespace chorus::inline secure {

/// One client's share of a secret: four elements of the field, like the secret itself.
using Share = Secret<32>;

/// A uniform secret that can be shared: four elements of the field, 244 bits. Keys are derived from it.
Key random_seed();

/// A share and the point x >= 1 at which it was evaluated.
struct PlacedShare {
  std::uint32_t x = 0;
  const Share* share = nullptr;
};

/// Shamir's secret sharing (1979) over the prime field of 2^61 - 1: any `threshold` shares reconstruct the secret,
/// fewer reveal nothing about it. Arithmetic on secrets takes constant time. The point of a share is x >= 1, never 0,
/// where the secret is.
///
///     const Key seed = random_seed();
///     std::vector<Share> shares = split_secret(seed, 7, points);
///     std::optional<Key> again = SecretJoiner().join(placed, 7);
std::vector<Share> split_secret(const Key& secret, std::size_t threshold, std::span<const std::uint32_t> points);

/// Reconstructs secrets. Caches Lagrange's coefficients, which depend on the points alone, because many secrets are
/// shared among the same clients. Not thread-safe.
class SecretJoiner {
 public:
  /// Uses the first `threshold` shares. Nothing when there are fewer, a point is 0 or repeated, or a share is invalid.
  /// A wrong share gives a wrong secret: verify the result against a commitment.
  std::optional<Key> join(std::span<const PlacedShare> shares, std::size_t threshold);

 private:
  std::map<std::vector<std::uint32_t>, std::vector<std::uint64_t>> coefficients_;
};

}  // namespace chorus::inline secure
