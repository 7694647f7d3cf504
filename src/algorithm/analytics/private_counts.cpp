#include "algorithm/analytics/private_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithm/noise/wide_gaussian.h"
#include "algorithm/privacy/accountant.h"
#include "core/base/error.h"

namespace chorus::inline analytics {
namespace {

// The z with P(N(0, 1) > z) = p.
double upper_quantile(double p) {
  double low = -40, high = 40;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > p ? low : high) = middle;
  }
  return high;
}

}  // namespace

PrivateCounts::PrivateCounts(const PrivateCountsConfig& config) : config_(config) {
  if (!(config.delta > 0 && config.delta < 0.1)) {
    throw ConfigError(fmt::format("delta is {}; it must be above 0 and well below 1 / clients", config.delta));
  }
  if (config.most < 1) throw ConfigError("a client contributes at least one word");
  const Releases once{.mechanisms = {{.noise = 1}}, .delta = config.delta / 2};
  noise_ = calibrate(once, config.epsilon, AccountantKind::kPld);
  // 1 - (1 - delta/2)^(1/most), without losing digits
  const double each = -std::expm1(std::log1p(-config.delta / 2) / static_cast<double>(config.most));
  threshold_ = 1 + noise_ * upper_quantile(each);
  units_ = static_cast<double>(kWideDeviation) / noise_;
}

void PrivateCounts::add(const std::map<std::string, double>& words) {
  check(!released_, "counts are released once");
  ++clients_;
  std::vector<std::pair<std::string, double>> chosen;
  for (const auto& [word, count] : words) {
    if (count > 0 && std::isfinite(count)) chosen.emplace_back(word, count);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (chosen.size() > config_.most) chosen.resize(config_.most);
  double squares = 0;
  for (const auto& entry : chosen) squares += entry.second * entry.second;
  if (!(squares > 0)) return;
  const double factor = (1 - 1e-9) * units_ / std::sqrt(squares);
  for (const auto& [word, count] : chosen) sums_[word] += static_cast<std::int64_t>(count * factor);
}

std::vector<std::pair<std::string, double>> PrivateCounts::release() {
  check(!released_, "counts are released once");
  released_ = true;
  std::vector<std::int64_t> noise(sums_.size());
  SecretStream stream;
  wide_gaussian(stream, noise);
  std::vector<std::pair<std::string, double>> result;
  std::size_t next = 0;
  for (const auto& [word, sum] : sums_) {
    const double weight = static_cast<double>(sum + noise[next++]) / units_;
    if (weight > threshold_) result.emplace_back(word, weight);
  }
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return result;
}

}  // namespace chorus::inline analytics
