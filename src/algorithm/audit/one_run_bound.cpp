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

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The inverse of phi: Abramowitz and Stegun 26.2.23 and Newton steps, on the side where erfc keeps its relative
// accuracy.
double quantile(double p) {
  if (p <= 1e-300) return -37;
  if (p >= 1) return 37;
  if (p > 0.5) return -quantile(1 - p);
  const double t = std::sqrt(-2 * std::log(p));
  double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int i = 0; i < 3; ++i) x -= (phi(x) - p) * std::sqrt(2 * M_PI) * std::exp(x * x / 2);
  return x;
}

// delta(epsilon) of N(mu, 1) against N(0, 1) falls with epsilon (Balle and Wang 2018).
double gaussian_epsilon(double mu, double delta) {
  const auto excess = [&](double e) { return phi(mu / 2 - e / mu) - std::exp(e) * phi(-mu / 2 - e / mu); };
  if (mu <= 0 || excess(0) <= delta) return 0;
  double low = 0, high = 1;
  while (high < 500 && excess(high) > delta) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (excess(middle) > delta ? low : high) = middle;
  }
  return low;
}

// All canaries, half of them, a quarter, ...
std::vector<std::int64_t> numbers_of_guesses(std::size_t canaries) {
  std::vector<std::int64_t> choices;
  for (auto made = static_cast<std::int64_t>(canaries); made >= 8 && choices.size() < 8; made /= 2) {
    choices.push_back(made);
  }
  return choices;
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
  const std::vector<std::int64_t> choices = numbers_of_guesses(scores.size());
  OneRunBound best;
  for (const std::int64_t made : choices) {
    const Guesses guesses = guess(scores, included, made);
    const double each = 1 - (1 - confidence) / static_cast<double>(choices.size());
    const double epsilon = epsilon_lower_bound(guesses, delta, each);
    if (epsilon > best.epsilon || best.guesses.made == 0) best = {epsilon, guesses};
  }
  return best;
}

// Let a_i and b_i be the probabilities that exactly i guesses are right and that a random canary is guessed right
// (wrong) as well. Privacy bounds the right ones by the wrong ones with one guess less: A_i <= F(B_{i-1}) for the sums
// of all from i on, F(x) = phi(quantile(x) + mu). So a tail of `tail` needs at least these B and A below it, which must
// not exceed everything there is.
bool rules_out_gaussian(const Guesses& guesses, double mu, double tail) {
  const auto m = static_cast<double>(guesses.canaries), made = static_cast<double>(guesses.made);
  const auto correct = static_cast<double>(guesses.right);
  double right = tail * correct / m, wrong = tail * (made - correct) / m;
  for (double i = correct - 1; i >= 0; --i) {
    const double next = std::max(wrong, phi(quantile(right) - mu));
    right += i / (made - i) * (next - wrong);
    wrong = next;
    if (right + wrong > made / m) return true;
  }
  return false;
}

OneRunBound gaussian_one_run_bound(std::span<const double> scores, std::span<const bool> included, double delta,
                                   double confidence) {
  const std::vector<std::int64_t> choices = numbers_of_guesses(scores.size());
  double best = 0;
  OneRunBound result;
  for (const std::int64_t made : choices) {
    const Guesses guesses = guess(scores, included, made);
    const double tail = (1 - confidence) / static_cast<double>(choices.size());
    if (result.guesses.made == 0) result.guesses = guesses;
    if (!rules_out_gaussian(guesses, std::max(best, 1e-6), tail)) continue;
    double low = best, high = 30;
    while (high - low > 1e-3) {
      const double middle = (low + high) / 2;
      (rules_out_gaussian(guesses, middle, tail) ? low : high) = middle;
    }
    best = low;
    result.guesses = guesses;
  }
  result.epsilon = gaussian_epsilon(best, delta);
  return result;
}

}  // namespace chorus::inline audit
