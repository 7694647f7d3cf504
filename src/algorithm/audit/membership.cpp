#include "algorithm/audit/membership.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/base/error.h"

namespace chorus::inline audit {
namespace {

double confidence_of(double loss) {
  const double p = std::clamp(std::exp(-loss), 1e-12, 1 - 1e-12);
  return std::log(p) - std::log1p(-p);
}

struct Normal {
  double mean = 0;
  std::optional<double> variance = {};
};

Normal fit(std::span<const double> losses) {
  Normal result;
  const auto n = static_cast<double>(losses.size());
  for (const double loss : losses) result.mean += confidence_of(loss) / n;
  if (losses.size() < 2) return result;
  double squares = 0;
  for (const double loss : losses) squares += std::pow(confidence_of(loss) - result.mean, 2) / (n - 1);
  if (squares > 1e-12) result.variance = squares;
  return result;
}

double log_density(double x, double mean, double variance) {
  return -0.5 * std::log(variance) - (x - mean) * (x - mean) / (2 * variance);
}

}  // namespace

Membership membership(std::span<const double> members, std::span<const double> others) {
  Membership result;
  if (members.empty() || others.empty()) return result;
  struct Scored {
    double score;
    bool member;
  };
  std::vector<Scored> all;
  for (const double score : members) all.push_back({score, true});
  for (const double score : others) all.push_back({score, false});
  std::sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  const auto in = static_cast<double>(members.size()), out = static_cast<double>(others.size());
  double found = 0, alarms = 0, area = 0;
  for (std::size_t i = 0; i < all.size();) {
    double ties_in = 0, ties_out = 0;
    for (const double score = all[i].score; i < all.size() && all[i].score == score; ++i) {
      (all[i].member ? ties_in : ties_out) += 1;
    }
    area += ties_out * (found + ties_in / 2);
    found += ties_in;
    alarms += ties_out;
    result.advantage = std::max(result.advantage, found / in - alarms / out);
    if (alarms / out <= 0.01) result.at_1_percent = found / in;
  }
  result.auc = area / (in * out);
  const double a = result.auc, q1 = a / (2 - a), q2 = 2 * a * a / (1 + a);
  result.auc_error =
      std::sqrt(std::max(0.0, a * (1 - a) + (in - 1) * (q1 - a * a) + (out - 1) * (q2 - a * a)) / (in * out));
  return result;
}

double likelihood_ratio(double loss, std::span<const double> with, std::span<const double> without) {
  if (with.empty() || without.empty()) return -loss;
  const Normal in = fit(with), out = fit(without);
  const double x = confidence_of(loss);
  const double in_variance = in.variance.value_or(out.variance.value_or(1));
  const double out_variance = out.variance.value_or(in.variance.value_or(1));
  return log_density(x, in.mean, in_variance) - log_density(x, out.mean, out_variance);
}

std::vector<double> below_expectation(std::span<const double> losses, std::span<const std::vector<double>> with,
                                      std::span<const std::vector<double>> without) {
  check(losses.size() == with.size() && losses.size() == without.size(), "one list of losses per record");
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  double effect = 0, pairs = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (with[i].empty() || without[i].empty()) continue;
    effect += mean(without[i]) - mean(with[i]);
    ++pairs;
  }
  if (pairs > 0) effect /= pairs;
  std::vector<double> result;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    double middle = 0;
    if (!with[i].empty() && !without[i].empty()) {
      middle = (mean(with[i]) + mean(without[i])) / 2;
    } else if (!with[i].empty()) {
      middle = mean(with[i]) + effect / 2;
    } else if (!without[i].empty()) {
      middle = mean(without[i]) - effect / 2;
    }
    result.push_back(middle - losses[i]);
  }
  return result;
}

}  // namespace chorus::inline audit
