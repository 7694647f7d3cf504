#include "core/base/rng.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/best_instructions.h"
#include "core/base/error.h"

namespace chorus::inline base {
namespace {

constexpr int kPhiloxRounds = 10;
constexpr std::uint64_t kPhilox0 = 0xD2511F53, kPhilox1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = kPhilox0 * counter[0];
    const std::uint64_t product1 = kPhilox1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

namespace {

CHORUS_FAST_LOOPS

constexpr int kManyBlocks = 64;  // with fewer the compiler does not vectorize

// Philox blocks of kManyBlocks consecutive counters, four values each.
CHORUS_BEST_INSTRUCTIONS
void philox_in_a_row(std::uint64_t counter, std::uint64_t high, std::uint64_t key, std::uint32_t* __restrict out) {
  std::uint32_t a[kManyBlocks], b[kManyBlocks], c[kManyBlocks], d[kManyBlocks];
  for (int i = 0; i < kManyBlocks; ++i) {
    const std::uint64_t number = counter + static_cast<std::uint64_t>(i);
    a[i] = static_cast<std::uint32_t>(number);
    b[i] = static_cast<std::uint32_t>(number >> 32);
    c[i] = static_cast<std::uint32_t>(high);
    d[i] = static_cast<std::uint32_t>(high >> 32);
  }
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kManyBlocks; ++i) {
      const std::uint64_t product0 = kPhilox0 * a[i], product1 = kPhilox1 * c[i];
      a[i] = static_cast<std::uint32_t>(product1 >> 32) ^ b[i] ^ key0;
      b[i] = static_cast<std::uint32_t>(product1);
      c[i] = static_cast<std::uint32_t>(product0 >> 32) ^ d[i] ^ key1;
      d[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  for (int i = 0; i < kManyBlocks; ++i) {
    out[4 * i] = a[i];
    out[4 * i + 1] = b[i];
    out[4 * i + 2] = c[i];
    out[4 * i + 3] = d[i];
  }
}

CHORUS_END_OF_FAST_LOOPS

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + 0x9E3779B97F4A7C15ULL * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t hash_name(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mix(hash, text.size());
}

RandomStream::RandomStream(const StreamKey& key)
    : key_(mix(key.seed, hash_name(key.purpose))), high_(mix(mix(mix(key_, key.round), key.client), key.step)) {}

void RandomStream::refill() {
  block_ = philox({static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32),
                   static_cast<std::uint32_t>(high_), static_cast<std::uint32_t>(high_ >> 32)},
                  {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
  ++counter_;
  used_ = 0;
}

void RandomStream::fill(std::span<std::uint32_t> out) {
  constexpr std::size_t kMany = 4 * kManyBlocks;
  std::size_t i = 0;
  while (used_ < 4 && i < out.size()) out[i++] = block_[used_++];
  for (; i + kMany <= out.size(); i += kMany) {
    philox_in_a_row(counter_, high_, key_, out.data() + i);
    counter_ += kManyBlocks;
  }
  while (i < out.size()) out[i++] = next_u32();
}

std::uint64_t RandomStream::below(std::uint64_t n) {
  check(n > 0, "RandomStream::below needs n > 0");
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next_u64()) * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t threshold = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>(next_u64()) * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

double RandomStream::log_gamma_variate(double shape) {
  check(shape > 0, "the shape of a gamma variate must be positive");
  // Gamma(a) = Gamma(a + 1) * U^(1/a): in the log domain nothing underflows for a << 1.
  double boost = 0;
  if (shape < 1) {
    boost = std::log(1.0 - uniform()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v) + boost;
  }
}

double RandomStream::gamma(double shape) { return std::exp(log_gamma_variate(shape)); }

std::vector<double> RandomStream::dirichlet(std::span<const double> alpha) {
  std::vector<double> point(alpha.size(), 0.0);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < alpha.size(); ++i) {
    check(alpha[i] >= 0, "Dirichlet needs alpha >= 0");
    if (alpha[i] == 0) continue;
    point[i] = log_gamma_variate(alpha[i]);
    largest = std::max(largest, point[i]);
  }
  check(std::isfinite(largest), "Dirichlet needs a positive alpha");
  double sum = 0;
  for (std::size_t i = 0; i < alpha.size(); ++i) {
    point[i] = alpha[i] == 0 ? 0.0 : std::exp(point[i] - largest);
    sum += point[i];
  }
  for (double& value : point) value /= sum;
  return point;
}

std::size_t RandomStream::categorical(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    check(weight >= 0, "categorical needs weights >= 0");
    sum += weight;
  }
  check(sum > 0, "categorical needs a positive weight");
  double left = uniform() * sum;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i;
    left -= weights[i];
    if (left < 0) return i;
  }
  return last;
}

}  // namespace chorus::inline base
