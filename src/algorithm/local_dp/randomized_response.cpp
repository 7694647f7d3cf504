#include "algorithm/local_dp/randomized_response.h"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"

namespace chorus::inline local_dp {

RandomizedResponse::RandomizedResponse(double epsilon, std::size_t answers) : answers_(answers) {
  if (!(epsilon > 0 && epsilon < 40)) {
    throw ConfigError(
        fmt::format("the epsilon of a randomized response is {}; it must be above 0 and below 40", epsilon));
  }
  if (answers < 2) throw ConfigError("a randomized response has at least two possible answers");
  const double others = static_cast<double>(answers) - 1;
  const double wanted = std::exp(epsilon) / (std::exp(epsilon) + others);
  // A little less than allowed, so that rounding does not exceed epsilon.
  threshold_ = static_cast<std::uint64_t>(std::ldexp(wanted * (1 - 0x1.0p-50), 64));
  keeps_ = std::ldexp(static_cast<double>(threshold_), -64);
  others_ = (1 - keeps_) / others;
}

std::size_t RandomizedResponse::answer(SecretStream& stream, std::size_t own) const {
  check(own < answers_, "an answer is one of those that are possible");
  if (stream.next_u64() < threshold_) return own;
  const auto other = static_cast<std::size_t>(stream.below(static_cast<std::uint64_t>(answers_ - 1)));
  return other < own ? other : other + 1;
}

std::vector<double> RandomizedResponse::estimate(std::span<const double> answered) const {
  check(answered.size() == answers_, "one count per possible answer");
  double clients = 0;
  for (const double count : answered) clients += count;
  std::vector<double> result;
  for (const double count : answered) result.push_back((count - clients * others_) / (keeps_ - others_));
  return result;
}

double RandomizedResponse::deviation(double clients, double share) const {
  // Given the true counts, answers are independent coins.
  const double variance = clients * (share * keeps_ * (1 - keeps_) + (1 - share) * others_ * (1 - others_));
  return std::sqrt(variance) / (keeps_ - others_);
}

}  // namespace chorus::inline local_dp
