#include "algorithm/privacy/shuffling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace chorus::inline privacy {

double shuffled_epsilon(double local_epsilon, std::int64_t users, double delta) {
  if (!(local_epsilon >= 0) || users < 1 || !(delta > 0 && delta < 1)) {
    throw ConfigError(
        fmt::format("shuffling {} users with a local epsilon of {} and delta {}: give at least 1 user, "
                    "an epsilon of at least 0 and a delta between 0 and 1",
                    users, local_epsilon, delta));
  }
  const auto n = static_cast<double>(users);
  const double most = std::log(n / (16 * std::log(2 / delta)));
  if (local_epsilon > most) {
    throw ConfigError(
        fmt::format("amplification by shuffling {} users is proven for a local epsilon of at most {:.3g}, "
                    "not {}; use more users, or report the local epsilon",
                    users, std::max(most, 0.0), local_epsilon));
  }
  const double e = std::exp(local_epsilon);
  const double spread = 8 * std::sqrt(e * std::log(4 / delta) / n) + 8 * e / n;
  return std::min(local_epsilon, std::log1p((e - 1) / (e + 1) * spread));
}

}  // namespace chorus::inline privacy
