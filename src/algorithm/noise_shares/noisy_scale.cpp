#include "algorithm/noise_shares/noisy_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "algorithm/noise/integer_noise.h"
#include "core/base/error.h"

namespace chorus::inline noise_shares {
namespace {

constexpr double kReach = 6;  // deviations of a rotated element that are not cut off
constexpr double kLeastDeviation = 4, kMostDeviation = 0x1.0p25 - 1;
constexpr int kTries = 200;  // of the rounding; each succeeds with a probability of at least 0.39

struct Grid {
  double most = 0, scale = 0, bound = 0, deviation = 0;
};

Grid grid_of(const NoiseShare& share, std::size_t values, std::size_t block) {
  Grid grid;
  grid.most = std::exp2(share.bits - 1) - 1;
  grid.scale = share.clip * std::min(1.0, kReach / std::sqrt(static_cast<double>(block))) / grid.most;
  const double c = share.clip / grid.scale, d = static_cast<double>(values), root = std::sqrt(d);
  // sqrt(2 ln(1 / beta)) = 1 for the acceptance probability 1 - beta with beta = exp(-1/2)
  grid.bound = std::min(c + root, std::sqrt(c * c + d / 4 + c + root / 2));
  grid.deviation = std::ceil(share.noise * grid.bound / std::sqrt(static_cast<double>(share.honest)));
  return grid;
}

void check_share(const NoiseShare& share, std::size_t values) {
  const auto require = [](bool ok, const std::string& message) {
    if (!ok) throw ConfigError("distributed noise: " + message);
  };
  require(share.on() && values > 0, "there is nothing to add noise to");
  require(share.noise >= 1e-3 && share.noise <= 1e5, fmt::format("noise is {}; give 0.001 to 1e5", share.noise));
  require(share.clip > 0 && std::isfinite(share.clip), fmt::format("clip is {}; it must be positive", share.clip));
  require(share.bits >= 4 && share.bits <= 24, fmt::format("{} bits per element; give 4 to 24", share.bits));
  require(share.honest >= 1 && share.honest <= share.clients,
          fmt::format("the noise of {} of {} clients is counted on; it must be 1 to all", share.honest, share.clients));
}

}  // namespace

std::string_view name_of(NoiseKind kind) {
  if (kind == NoiseKind::kSkellam) return "Skellam";
  return kind == NoiseKind::kDiscreteGaussian ? "discrete Gaussian" : "no";
}

double NoisyScale::bits_needed(const NoiseShare& share, std::size_t values) {
  check_share(share, values);
  const Grid grid = grid_of(share, values, std::bit_floor(values));
  const auto n = static_cast<double>(share.clients);
  return std::log2(n * grid.most + 8 * std::sqrt(n) * grid.deviation) + 1;
}

NoisyScale::NoisyScale(const NoiseShare& share, const Shape& shape)
    : share_(share),
      shape_(shape),
      rotation_(std::max<std::size_t>(shape.values, 1),
                {.seed = shape.seed, .purpose = "rotation of noisy sums", .round = shape.round}) {
  check_share(share, shape.values);
  const Grid grid = grid_of(share, shape.values, rotation_.block());
  most_ = grid.most;
  scale_ = grid.scale;
  bound_ = grid.bound;
  deviation_ = grid.deviation;
  if (deviation_ < kLeastDeviation || deviation_ > kMostDeviation) {
    throw ConfigError(fmt::format(
        "distributed noise: a share has a deviation of {} steps with {} bits per element; it must be {} to {}: use {} "
        "bits",
        deviation_, share.bits, kLeastDeviation, kMostDeviation, deviation_ < kLeastDeviation ? "more" : "fewer"));
  }
  if (bits_needed(share, shape.values) >= shape.capacity) {
    throw ConfigError(fmt::format("distributed noise: a noisy sum over {} clients overflows {} bits; use fewer bits",
                                  share.clients, shape.capacity));
  }
}

Mechanism NoisyScale::mechanism() const {
  const auto m = static_cast<double>(share_.honest), d = static_cast<double>(shape_.values);
  const double noise = deviation_ * std::sqrt(m) / bound_;
  if (share_.kind == NoiseKind::kSkellam) {
    return {.kind = MechanismKind::kSkellam,
            .noise = noise,
            .sensitivity = bound_,
            .l1_sensitivity = std::min(std::sqrt(d) * bound_, bound_ * bound_)};
  }
  // Kairouz, Liu and Steinke 2021, theorem 1: a sum of discrete Gaussians is 1/2 e^2-zCDP.
  double tau = 0;
  for (double k = 1; k < m; ++k) tau += 10 * std::exp(-2 * M_PI * M_PI * deviation_ * deviation_ * k / (k + 1));
  const double e = std::min(std::sqrt(1 / (noise * noise) + tau * d / 2), 1 / noise + tau * std::sqrt(d));
  return {.kind = MechanismKind::kConcentrated, .noise = 1 / e};
}

std::vector<std::int64_t> NoisyScale::quantised(std::span<const float> values) const {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  // A little less than allowed: rounding errors of the rotation must not exceed the bound.
  const double factor = (1 - 1e-9) * std::min(1.0, share_.clip / std::max(std::sqrt(squares), 1e-300)) / scale_;
  std::vector<double> rotated(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) rotated[i] = factor * static_cast<double>(values[i]);
  rotation_.forward(rotated);
  for (double& value : rotated) value = std::clamp(value, -most_, most_);

  std::vector<std::int64_t> whole(values.size());
  SecretStream stream;
  const double allowed = bound_ * bound_ * (1 - 1e-12);
  for (int attempt = 0;; ++attempt) {
    double norm = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const double rounded = attempt < kTries ? std::floor(rotated[i] + stream.uniform()) : std::trunc(rotated[i]);
      norm += rounded * rounded;
      whole[i] = static_cast<std::int64_t>(rounded);
    }
    if (norm <= allowed) return whole;
    check(attempt < kTries, "rounding towards zero keeps the norm");
  }
}

Result<RingVector> NoisyScale::encode(std::span<const float> values) const {
  check(values.size() == shape_.values, "a vector of another length");
  for (const float value : values) {
    if (!std::isfinite(value)) return Failure{Failure::Kind::kRefused, "an update with values that are not finite"};
  }
  std::vector<std::int64_t> whole = quantised(values);
  SecretStream stream;  // a key of its own
  for (std::int64_t& value : whole) {
    value += share_.kind == NoiseKind::kSkellam ? skellam(stream, deviation_ * deviation_)
                                                : discrete_gaussian(stream, static_cast<std::uint64_t>(deviation_));
  }
  RingVector encoded(shape_.ring_bits, length());
  encoded.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    for (std::size_t i = 0; i < whole.size(); ++i) words[i] = static_cast<Word>(whole[i]);
  });
  encoded.set(shape_.values, 1);
  if (shape_.checksum) encoded.set(shape_.values + 1, checksum(encoded));
  return encoded;
}

std::uint64_t NoisyScale::checksum(const RingVector& vector) const {
  RandomStream stream({.seed = shape_.seed, .purpose = "checksum of a noisy sum", .round = shape_.round});
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= shape_.values; ++i) sum += (stream.next_u64() | 1) * vector.at(i);
  return shape_.ring_bits == 32 ? static_cast<std::uint32_t>(sum) : sum;
}

Result<std::vector<float>> NoisyScale::decode(const RingVector& sum, std::size_t clients) const {
  const auto malformed = [](const char* why) { return Failure{Failure::Kind::kMalformed, why}; };
  check(sum.size() == length() && sum.bits() == shape_.ring_bits, "a sum of another length or ring");
  if (shape_.checksum && checksum(sum) != sum.at(shape_.values + 1)) {
    return malformed("the checksum of the secure sum is wrong");
  }
  if (clients == 0 || clients > share_.clients || sum.at(shape_.values) != clients) {
    return malformed("the count of the secure sum is wrong");
  }
  std::vector<double> total(shape_.values);
  sum.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] = static_cast<double>(static_cast<std::make_signed_t<Word>>(words[i]));
    }
  });
  rotation_.backward(total);
  std::vector<float> mean(total.size());
  const double unit = scale_ / static_cast<double>(clients);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(total[i] * unit);
  return mean;
}

}  // namespace chorus::inline noise_shares
