#include "algorithm/noise/integer_noise.h"

#include <cmath>

#include "core/base/error.h"

namespace chorus::inline noise {
namespace {

using Wide = SecretStream::Wide;

// exp(-n/d) for n <= d: the first k whose coin with probability n / (d k) fails is odd.
bool bernoulli_exp_small(SecretStream& stream, Wide numerator, Wide denominator) {
  std::uint64_t k = 1;
  while (stream.below(denominator * k) < numerator) ++k;
  return k % 2 == 1;
}

// ln of the Poisson probability of k >= 0, by Loader's saddle point expansion (2000): lgamma would lose all digits of
// the difference of two huge numbers.
double log_poisson(double k, double mean) {
  if (k < 16) return k * std::log(mean) - mean - std::lgamma(k + 1);
  // k ln(k / mean) + mean - k = k f(x), f(x) = x - ln(1 + x), x = (mean - k) / k
  const double x = (mean - k) / k;
  double f = x - std::log1p(x);
  if (std::abs(x) < 0.02) {
    f = 0;
    double power = x * x;
    for (int n = 2; n <= 11; ++n, power *= -x) f += power / n;
  }
  const double stirling = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / (k * k)) / (k * k)) / k;
  return -k * f - stirling - 0.5 * std::log(2 * M_PI * k);
}

}  // namespace

bool bernoulli_exp(SecretStream& stream, Wide numerator, Wide denominator) {
  for (; numerator > denominator; numerator -= denominator) {
    if (!bernoulli_exp_small(stream, 1, 1)) return false;
  }
  return bernoulli_exp_small(stream, numerator, denominator);
}

std::int64_t discrete_laplace(SecretStream& stream, std::uint64_t scale) {
  check(scale > 0 && scale < std::uint64_t{1} << 40, "the scale of integer noise is out of range");
  for (;;) {
    const std::uint64_t low = stream.below(scale);
    if (!bernoulli_exp_small(stream, low, scale)) continue;
    std::uint64_t high = 0;
    while (bernoulli_exp_small(stream, 1, 1)) ++high;
    const auto size = static_cast<std::int64_t>(low + scale * high);
    const bool negative = stream.next_u64() >> 63 != 0;
    if (negative && size == 0) continue;  // else 0 would come twice as often
    return negative ? -size : size;
  }
}

std::int64_t discrete_gaussian(SecretStream& stream, std::uint64_t sigma) {
  check(sigma > 0 && sigma < std::uint64_t{1} << 25, "the deviation of integer noise is out of range");
  const std::uint64_t scale = sigma + 1;
  const Wide variance = static_cast<Wide>(sigma) * sigma;
  // exp(-(|y| - sigma^2/scale)^2 / (2 sigma^2)) over the common denominator 2 sigma^2 scale^2
  const Wide denominator = 2 * variance * scale * scale;
  for (;;) {
    const std::int64_t y = discrete_laplace(stream, scale);
    const Wide scaled = static_cast<Wide>(static_cast<std::uint64_t>(std::abs(y))) * scale;
    const Wide distance = scaled > variance ? scaled - variance : variance - scaled;
    // Beyond 2^62 the square would overflow; its probability is below exp(-2^20).
    if (distance >> 62 == 0 && bernoulli_exp(stream, distance * distance, denominator)) return y;
  }
}

std::int64_t poisson(SecretStream& stream, double mean) {
  check(mean >= 0 && mean <= 0x1.0p52, "the mean of a Poisson variable is out of range");
  if (mean < 10) {
    // Products of uniform variables until they fall below exp(-mean).
    const double limit = std::exp(-mean);
    std::int64_t count = 0;
    for (double product = stream.uniform(); product > limit; product *= stream.uniform()) ++count;
    return count;
  }
  const double root = std::sqrt(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = stream.uniform() - 0.5, v = stream.uniform(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= sure) return static_cast<std::int64_t>(k);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse) - std::log(a / (us * us) + b) <= log_poisson(k, mean)) {
      return static_cast<std::int64_t>(k);
    }
  }
}

std::int64_t skellam(SecretStream& stream, double variance) {
  const std::int64_t up = poisson(stream, variance / 2);
  return up - poisson(stream, variance / 2);
}

}  // namespace chorus::inline noise
