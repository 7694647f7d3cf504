#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithm/noise/secret_stream.h"

namespace chorus::inline local_dp {

/// k-ary randomized response (Warner 1965; Kairouz, Bonawitz and Ramage 2016): a client answers with its own value with
/// probability e^eps / (e^eps + k - 1), else with one of the k - 1 others, equally likely. That is eps-local
/// differential privacy, exactly, for one answer per client. Adding up many answers gives an unbiased histogram:
///
///     RandomizedResponse response(1.0, labels);
///     const std::size_t said = response.answer(stream, own);              // on the client
///     const std::vector<double> counts = response.estimate(histogram);    // at the server
class RandomizedResponse {
 public:
  /// ConfigError for an epsilon that is not positive, or fewer than two possible answers.
  RandomizedResponse(double epsilon, std::size_t answers);

  std::size_t answer(SecretStream& stream, std::size_t own) const;
  /// How many clients have each value, without bias, from how many gave each answer.
  std::vector<double> estimate(std::span<const double> answered) const;
  /// Standard deviation of an estimate, for so many clients of whom a share has the value.
  double deviation(double clients, double share) const;

  /// The probability of the own value.
  double keeps() const { return keeps_; }

 private:
  std::size_t answers_;
  double keeps_, others_;
  std::uint64_t threshold_;  // keeps_ * 2^64, rounded down: the promise is kept exactly
};

}  // namespace chorus::inline local_dp
