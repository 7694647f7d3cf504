#include "algorithm/privacy/participation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline privacy {
namespace {

// How often a record can take part at all.
std::int64_t possible(const Participation& p) { return std::min(p.most, (p.steps - 1) / p.separation + 1); }

}  // namespace

void validate(const Participation& p) {
  if (p.steps < 1 || p.steps > 100'000'000) {
    throw ConfigError(fmt::format("the number of steps is {}; it must be between 1 and 1e8", p.steps));
  }
  if (p.most < 1 || p.separation < 1) {
    throw ConfigError(
        fmt::format("at most {} participations, {} steps apart: both must be at least 1", p.most, p.separation));
  }
}

double toeplitz_sensitivity(std::span<const double> coefficients, const Participation& p) {
  validate(p);
  double before = std::numeric_limits<double>::infinity();
  for (const double c : coefficients) {
    if (!(c >= 0 && c <= before)) {
      throw ConfigError(
          "the sensitivity of a Toeplitz matrix is known only for coefficients that are not negative and do not "
          "increase");
    }
    before = c;
  }
  const std::int64_t count = possible(p), bands = static_cast<std::int64_t>(coefficients.size());
  double squares = 0;
  for (std::int64_t row = 0; row < p.steps; ++row) {
    double sum = 0;
    // Only participations at most `bands - 1` steps ago are seen in this row.
    const std::int64_t oldest = std::max<std::int64_t>(0, (row - bands + p.separation) / p.separation);
    for (std::int64_t i = oldest; i < count && i * p.separation <= row; ++i) {
      const std::int64_t lag = row - i * p.separation;
      if (lag < bands) sum += coefficients[static_cast<std::size_t>(lag)];
    }
    squares += sum * sum;
  }
  return std::sqrt(squares);
}

std::vector<double> square_root_coefficients(std::int64_t count) {
  std::vector<double> result{1};
  for (std::int64_t i = 1; i < count; ++i) {
    const auto k = static_cast<double>(i);
    result.push_back(result.back() * (2 * k - 1) / (2 * k));
  }
  return result;
}

std::vector<double> blt_coefficients(std::span<const double> weights, std::span<const double> decays,
                                     std::int64_t count) {
  check(weights.size() == decays.size(), "one decay per weight");
  std::vector<double> powers(weights.begin(), weights.end()), result{1};
  for (std::int64_t i = 1; i < count; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < powers.size(); ++j) {
      sum += powers[j];
      powers[j] *= decays[j];
    }
    result.push_back(sum);
  }
  return result;
}

double tree_sensitivity(const Participation& p) {
  validate(p);
  const std::int64_t count = possible(p);
  double squares = 0;
  for (std::int64_t size = 1; size <= p.steps; size *= 2) {
    const std::int64_t each = std::min(count, (size - 1) / p.separation + 1);
    std::int64_t left = count;
    for (std::int64_t node = 0; node < p.steps / size && left > 0; ++node) {
      const auto here = static_cast<double>(std::min(each, left));
      squares += here * here;
      left -= each;
    }
  }
  return std::sqrt(squares);
}

}  // namespace chorus::inline privacy
