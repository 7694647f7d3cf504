#include "algorithm/secure/common_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

/// Bits of a ring that holds any sum, sign included.
double bits_needed(const ScaleSettings& settings) {
  const double most = std::exp2(settings.bits - 1) - 1;
  return std::log2(static_cast<double>(settings.clients)) + std::log2(static_cast<double>(settings.most_weight)) +
         std::log2(std::max(most, 1.0)) + 1;
}

std::int64_t as_signed(std::uint64_t word, unsigned bits) {
  return bits == 32 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(word)) : static_cast<std::int64_t>(word);
}

}  // namespace

unsigned CommonScale::ring_bits_for(const ScaleSettings& settings) {
  for (const unsigned bits : {32U, 64U}) {
    if (bits_needed(settings) < bits) return bits;
  }
  throw ConfigError(
      fmt::format("secure sum: {} clients with weights up to {} and {} bits per element need a ring of more than 64 "
                  "bits; use fewer "
                  "bits or smaller weights",
                  settings.clients, settings.most_weight, settings.bits));
}

CommonScale::CommonScale(const ScaleSettings& settings, unsigned ring_bits, std::size_t values, std::uint64_t seed)
    : settings_(settings),
      ring_bits_(ring_bits),
      values_(values),
      seed_(seed),
      most_(std::exp2(settings.bits - 1) - 1),
      scale_(settings.clip / most_) {
  if (settings.bits < 2 || settings.bits > 31) {
    throw ConfigError(fmt::format("secure sum: {} bits per element; it must be 2 to 31", settings.bits));
  }
  if (!(settings.clip > 0) || !std::isfinite(settings.clip) || !(settings.norm >= 0)) {
    throw ConfigError(
        fmt::format("secure sum: clip {} must be positive and norm {} not negative", settings.clip, settings.norm));
  }
  if (settings.clients == 0 || settings.most_weight == 0) {
    throw ConfigError("secure sum: the number of clients and the largest weight must be positive");
  }
  if (bits_needed(settings) >= ring_bits) {
    throw ConfigError(fmt::format(
        "secure sum: a sum over {} clients with weights up to {} and {} bits per element overflows a ring of {} bits; "
        "use ring_bits: 64, fewer bits or smaller weights",
        settings.clients, settings.most_weight, settings.bits, ring_bits));
  }
}

std::uint64_t CommonScale::checksum(const RingVector& vector) const {
  RandomStream stream({.seed = seed_, .purpose = "checksum of a secure sum"});
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= values_; ++i) sum += (stream.next_u64() | 1) * vector.at(i);
  return ring_bits_ == 32 ? static_cast<std::uint32_t>(sum) : sum;
}

Result<RingVector> CommonScale::encode(std::span<const float> values, std::uint64_t weight,
                                       const StreamKey& key) const {
  check(values.size() == values_, "a vector of another length");
  if (weight < 1 || weight > settings_.most_weight) {
    return Failure{Failure::Kind::kRefused, fmt::format("a weight outside 1 to {}", settings_.most_weight)};
  }
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  if (!std::isfinite(squares)) return Failure{Failure::Kind::kRefused, "an update with values that are not finite"};
  const double shrink =
      settings_.norm > 0 && squares > settings_.norm * settings_.norm ? settings_.norm / std::sqrt(squares) : 1;
  RingVector encoded(ring_bits_, length());
  RandomStream stream(key);
  for (std::size_t i = 0; i < values_; ++i) {
    const double cut = std::clamp(shrink * static_cast<double>(values[i]), -settings_.clip, settings_.clip);
    const double rounded = std::clamp(std::floor(cut / scale_ + stream.uniform()), -most_, most_);
    const auto whole = static_cast<std::int64_t>(rounded) * static_cast<std::int64_t>(weight);
    encoded.set(i, static_cast<std::uint64_t>(whole));
  }
  encoded.set(values_, weight);
  encoded.set(values_ + 1, checksum(encoded));
  return encoded;
}

Result<std::vector<float>> CommonScale::decode(const RingVector& sum, std::size_t clients) const {
  const auto malformed = [](const char* why) { return Failure{Failure::Kind::kMalformed, why}; };
  check(sum.size() == length() && sum.bits() == ring_bits_, "a sum of another length or ring");
  if (checksum(sum) != sum.at(values_ + 1)) return malformed("the checksum of the secure sum is wrong");
  const std::uint64_t weight = sum.at(values_);
  if (clients == 0 || clients > settings_.clients || weight < clients || weight > clients * settings_.most_weight) {
    return malformed("the weights of the secure sum are not possible");
  }
  const double most = most_ * static_cast<double>(weight);
  std::vector<float> mean(values_);
  for (std::size_t i = 0; i < values_; ++i) {
    const auto total = static_cast<double>(as_signed(sum.at(i), ring_bits_));
    if (std::abs(total) > most) return malformed("an element of the secure sum is out of range");
    mean[i] = static_cast<float>(total * scale_ / static_cast<double>(weight));
  }
  return mean;
}

}  // namespace chorus::inline secure
