#include "algorithm/audit/one_run_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"

namespace chorus::inline audit {
namespace {

// Probabilities of 0, 1, ... n successes.
std::vector<double> binomial(std::int64_t n, double p) {
  std::vector<double> result;
  const double count = static_cast<double>(n);
  for (std::int64_t k = 0; k <= n; ++k) {
    const auto x = static_cast<double>(k);
    const double log_choices = std::lgamma(count + 1) - std::lgamma(x + 1) - std::lgamma(count - x + 1);
    result.push_back(std::exp(log_choices + x * std::log(p) + (count - x) * std::log1p(-p)));
  }
  return result;
}

}  // namespace

Guesses guess(std::span<const double> scores, std::span<const bool> included, std::int64_t made) {
  check(scores.size() == included.size(), "one score per canary");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  const auto half = static_cast<std::size_t>(std::min<std::int64_t>(made, static_cast<std::int64_t>(order.size())) / 2);
  Guesses result{static_cast<std::int64_t>(scores.size()), static_cast<std::int64_t>(2 * half), 0};
  for (std::size_t i = 0; i < half; ++i) {
    result.right += included[order[i]] ? 1 : 0;
    result.right += included[order[order.size() - 1 - i]] ? 0 : 1;
  }
  return result;
}

double guess_probability(const Guesses& guesses, double epsilon, double delta) {
  check(guesses.right >= 0 && guesses.right <= guesses.made && guesses.made <= guesses.canaries && epsilon >= 0,
        "guesses are counts");
  if (guesses.right == 0) return 1;
  const std::vector<double> p = binomial(guesses.made, 1 / (1 + std::exp(-epsilon)));
  double tail = 0;
  for (std::int64_t k = guesses.made; k >= guesses.right; --k) tail += p[static_cast<std::size_t>(k)];
  double worst = 0, sum = 0;
  for (std::int64_t i = 1; i <= guesses.right; ++i) {
    sum += p[static_cast<std::size_t>(guesses.right - i)];
    worst = std::max(worst, sum / static_cast<double>(i));
  }
  return std::min(1.0, tail + 2 * delta * static_cast<double>(guesses.canaries) * worst);
}

double epsilon_lower_bound(const Guesses& guesses, double delta, double confidence) {
  check(confidence > 0 && confidence < 1, "a confidence is between 0 and 1");
  const double allowed = 1 - confidence;
  if (guesses.made == 0 || guess_probability(guesses, 0, delta) > allowed) return 0;
  double low = 0, high = 60;
  while (high - low > 1e-6) {
    const double middle = (low + high) / 2;
    (guess_probability(guesses, middle, delta) <= allowed ? low : high) = middle;
  }
  return low;
}

OneRunBound one_run_bound(std::span<const double> scores, std::span<const bool> included, double delta,
                          double confidence) {
  const auto all = static_cast<std::int64_t>(scores.size());
  std::vector<std::int64_t> choices;
  for (std::int64_t made = all; made >= 8 && choices.size() < 8; made /= 2) choices.push_back(made);
  OneRunBound best;
  for (const std::int64_t made : choices) {
    const Guesses guesses = guess(scores, included, made);
    const double each = 1 - (1 - confidence) / static_cast<double>(choices.size());
    const double epsilon = epsilon_lower_bound(guesses, delta, each);
    if (epsilon > best.epsilon || best.guesses.made == 0) best = {epsilon, guesses};
  }
  return best;
}

}  // namespace chorus::inline audit
