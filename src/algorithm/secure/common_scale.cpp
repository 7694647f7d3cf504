#include "algorithm/secure/common_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

constexpr std::size_t kBlock = 2048;  // elements whose random words are drawn at once

/// r_0, r_1, ... of the checksum, block by block.
class Factors {
 public:
  explicit Factors(std::uint64_t seed) : stream_({.seed = seed, .purpose = "checksum of a secure sum"}) {}
  std::span<const std::uint32_t> next(std::size_t count) {
    stream_.fill(std::span(block_.data(), 2 * count));
    return {block_.data(), 2 * count};
  }

 private:
  RandomStream stream_;
  std::array<std::uint32_t, 2 * kBlock> block_{};
};

double squares_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return squares;
}

}  // namespace

double CommonScale::bits_needed(const ScaleSettings& settings) {
  const double most = std::exp2(settings.bits - 1) - 1;
  return std::log2(static_cast<double>(settings.clients)) + std::log2(static_cast<double>(settings.most_weight)) +
         std::log2(std::max(most, 1.0)) + 1;
}

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
  const unsigned capacity = settings.capacity > 0 ? settings.capacity : ring_bits;
  if (bits_needed(settings) >= capacity) {
    throw ConfigError(fmt::format(
        "secure sum: a sum over {} clients with weights up to {} and {} bits per element overflows a ring of {} bits; "
        "use ring_bits: 64, fewer bits or smaller weights",
        settings.clients, settings.most_weight, settings.bits, capacity));
  }
}

std::uint64_t CommonScale::checksum(const RingVector& vector) const {
  const auto sum = vector.words([&](auto words) -> std::uint64_t {
    Factors factors(seed_);
    std::uint64_t total = 0;
    for (std::size_t begin = 0; begin <= values_; begin += kBlock) {
      const std::size_t count = std::min(kBlock, values_ + 1 - begin);
      const auto drawn = factors.next(count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t factor = drawn[2 * i] | 1 | (static_cast<std::uint64_t>(drawn[2 * i + 1]) << 32);
        total += factor * words[begin + i];
      }
    }
    return total;
  });
  return ring_bits_ == 32 ? static_cast<std::uint32_t>(sum) : sum;
}

double CommonScale::shrink(std::span<const float> values) const {
  if (settings_.norm <= 0) return 1;
  const double squares = squares_of(values);
  return squares > settings_.norm * settings_.norm ? settings_.norm / std::sqrt(squares) : 1;
}

Result<RingVector> CommonScale::encode(std::span<const float> values, std::uint64_t weight,
                                       const StreamKey& key) const {
  check(values.size() == values_, "a vector of another length");
  if (weight < 1 || weight > settings_.most_weight) {
    return Failure{Failure::Kind::kRefused, fmt::format("a weight outside 1 to {}", settings_.most_weight)};
  }
  if (!std::isfinite(squares_of(values))) {
    return Failure{Failure::Kind::kRefused, "an update with values that are not finite"};
  }
  const double shrunk = shrink(values);
  RingVector encoded(ring_bits_, length());
  encoded.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    RandomStream stream(key);
    std::array<std::uint32_t, kBlock> drawn;
    const auto factor = static_cast<std::int64_t>(weight);
    for (std::size_t begin = 0; begin < values_; begin += kBlock) {
      const std::size_t count = std::min(kBlock, values_ - begin);
      stream.fill(std::span(drawn.data(), count));
      for (std::size_t i = 0; i < count; ++i) {
        const double cut = std::clamp(shrunk * static_cast<double>(values[begin + i]), -settings_.clip, settings_.clip);
        const double up = static_cast<double>(drawn[i]) * 0x1.0p-32;
        const double rounded = std::clamp(std::floor(cut / scale_ + up), -most_, most_);
        words[begin + i] = static_cast<Word>(static_cast<std::int64_t>(rounded) * factor);
      }
    }
  });
  encoded.set(values_, weight);
  if (settings_.checksum) encoded.set(values_ + 1, checksum(encoded));
  return encoded;
}

Result<std::vector<float>> CommonScale::decode(const RingVector& sum, std::size_t clients) const {
  const auto malformed = [](const char* why) { return Failure{Failure::Kind::kMalformed, why}; };
  check(sum.size() == length() && sum.bits() == ring_bits_, "a sum of another length or ring");
  if (settings_.checksum && checksum(sum) != sum.at(values_ + 1)) {
    return malformed("the checksum of the secure sum is wrong");
  }
  const std::uint64_t weight = sum.at(values_);
  if (clients == 0 || clients > settings_.clients || weight < clients || weight > clients * settings_.most_weight) {
    return malformed("the weights of the secure sum are not possible");
  }
  const double most = most_ * static_cast<double>(weight), unit = scale_ / static_cast<double>(weight);
  std::vector<float> mean(values_);
  const bool possible = sum.words([&](auto words) {
    using Word = typename decltype(words)::value_type;
    double largest = 0;
    for (std::size_t i = 0; i < values_; ++i) {
      const auto total = static_cast<double>(static_cast<std::make_signed_t<Word>>(words[i]));
      largest = std::max(largest, std::abs(total));
      mean[i] = static_cast<float>(total * unit);
    }
    return largest <= most;
  });
  if (!possible) return malformed("an element of the secure sum is out of range");
  return mean;
}

}  // namespace chorus::inline secure
