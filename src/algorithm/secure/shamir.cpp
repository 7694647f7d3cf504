#include "algorithm/secure/shamir.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
constexpr std::size_t kPieces = 4;
constexpr std::size_t kMostRemembered = 4096;

__extension__ using Wide = unsigned __int128;

// Without branches or table look-ups on the operands.
std::uint64_t reduce(std::uint64_t x) {  // x < 2 p
  const std::uint64_t less = x - kPrime;
  const std::uint64_t borrowed = 0 - (less >> 63);
  return (x & borrowed) | (less & ~borrowed);
}
std::uint64_t add(std::uint64_t a, std::uint64_t b) { return reduce(a + b); }
std::uint64_t subtract(std::uint64_t a, std::uint64_t b) { return reduce(a + kPrime - b); }
std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  const Wide product = Wide{a} * b;
  return reduce((static_cast<std::uint64_t>(product) & kPrime) + static_cast<std::uint64_t>(product >> 61));
}

std::uint64_t inverse(std::uint64_t a) {
  std::uint64_t result = 1;
  for (std::uint64_t power = kPrime - 2; power > 0; power >>= 1) {
    if ((power & 1) == 1) result = multiply(result, a);
    a = multiply(a, a);
  }
  return result;
}

// Uniform, by rejection of values not below the prime.
std::uint64_t random_element() {
  std::uint64_t value = kPrime;
  while (value >= kPrime) {
    std::array<std::byte, 8> bytes;
    fill_random(bytes);
    std::memcpy(&value, bytes.data(), bytes.size());
    wipe(bytes.data(), bytes.size());
    value &= kPrime;
  }
  return value;
}

// Non-zero for a word that is not an element of the field.
std::uint64_t outside(std::uint64_t word) { return (word >> 61) | (1 ^ (((word & kPrime) - kPrime) >> 63)); }

// lambda_i = prod_{j != i} x_j / (x_j - x_i): Lagrange weights of the shares at 0.
std::vector<std::uint64_t> lagrange_at_zero(const std::vector<std::uint32_t>& points) {
  std::vector<std::uint64_t> above(points.size(), 1), below(points.size(), 1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < points.size(); ++j) {
      if (i == j) continue;
      above[i] = multiply(above[i], points[j]);
      below[i] = multiply(below[i], subtract(points[j], points[i]));
    }
  }
  for (std::size_t i = 0; i < points.size(); ++i) above[i] = multiply(above[i], inverse(below[i]));
  return above;
}

}  // namespace

Key random_seed() {
  Key seed;
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    std::uint64_t value = random_element();
    std::memcpy(seed.data() + 8 * piece, &value, sizeof(value));
    wipe(&value, sizeof(value));
  }
  return seed;
}

std::vector<Share> split_secret(const Key& secret, std::size_t threshold, std::span<const std::uint32_t> points) {
  check(threshold >= 1 && threshold <= points.size(), "a secret needs at least as many shares as its threshold");
  for (const std::uint32_t x : points) check(x > 0, "the value at 0 is the secret");
  std::vector<Share> shares(points.size());
  std::vector<std::uint64_t> coefficients(threshold);
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    std::memcpy(coefficients.data(), secret.data() + 8 * piece, 8);
    check(outside(coefficients[0]) == 0, "a secret that is shared must come from random_seed");
    for (std::size_t i = 1; i < threshold; ++i) coefficients[i] = random_element();
    for (std::size_t k = 0; k < points.size(); ++k) {
      std::uint64_t value = 0;
      for (std::size_t i = threshold; i-- > 0;) value = add(multiply(value, points[k]), coefficients[i]);
      std::memcpy(shares[k].data() + 8 * piece, &value, sizeof(value));
      wipe(&value, sizeof(value));
    }
  }
  wipe(coefficients.data(), coefficients.size() * sizeof(std::uint64_t));
  return shares;
}

std::optional<Key> SecretJoiner::join(std::span<const PlacedShare> shares, std::size_t threshold) {
  if (threshold == 0 || shares.size() < threshold) return std::nullopt;
  shares = shares.first(threshold);
  std::vector<std::uint32_t> points;
  for (const PlacedShare& placed : shares) points.push_back(placed.x);
  std::vector<std::uint32_t> sorted = points;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() == 0 || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return std::nullopt;
  auto found = coefficients_.find(points);
  if (found == coefficients_.end()) {
    if (coefficients_.size() >= kMostRemembered) coefficients_.clear();
    found = coefficients_.emplace(points, lagrange_at_zero(points)).first;
  }
  Key secret;
  std::uint64_t wrong = 0;
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      std::uint64_t part = 0;
      std::memcpy(&part, shares[i].share->data() + 8 * piece, sizeof(part));
      wrong |= outside(part);
      value = add(value, multiply(found->second[i], part & kPrime));
      wipe(&part, sizeof(part));
    }
    std::memcpy(secret.data() + 8 * piece, &value, sizeof(value));
    wipe(&value, sizeof(value));
  }
  if (wrong != 0) return std::nullopt;
  return secret;
}

}  // namespace chorus::inline secure
