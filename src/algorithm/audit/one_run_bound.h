#pragma once

#include <cstdint>
#include <span>

namespace chorus::inline audit {

/// Guesses about canaries of which each was included with probability 1/2: `made` of `canaries`, `right` of them.
struct Guesses {
  std::int64_t canaries = 0, made = 0, right = 0;
};

/// Guesses from scores (higher: rather included): the `made` / 2 highest are guessed to be in, the `made` / 2 lowest
/// out. Ties are broken by index. `included` says what was true.
Guesses guess(std::span<const double> scores, std::span<const bool> included, std::int64_t made);

/// The probability that a mechanism with this epsilon and delta allows at least so many right guesses, at most
/// (Steinke, Nasr and Jagielski 2023, theorem 5.2 and appendix D).
double guess_probability(const Guesses& guesses, double epsilon, double delta);

/// A lower bound on epsilon from one training run: the largest epsilon that the guesses rule out with this confidence.
/// A bound above the accounted epsilon means that the accounting or the mechanism is wrong.
///
///     const double least = epsilon_lower_bound(guess(scores, included, 100), 1e-5, 0.95);
double epsilon_lower_bound(const Guesses& guesses, double delta, double confidence);

/// The best of up to eight numbers of guesses (all canaries, half, a quarter, ...), with a confidence that covers the
/// choice.
struct OneRunBound {
  double epsilon = 0;
  Guesses guesses = {};
};
OneRunBound one_run_bound(std::span<const double> scores, std::span<const bool> included, double delta,
                          double confidence);

/// The same for a mechanism that is as private as a Gaussian one, which is tighter because it uses the whole trade-off
/// between errors instead of one (epsilon, delta) (Mahloujifar, Melis and Chaudhuri 2025, algorithm 3). The result is
/// the epsilon at `delta` of the least noisy Gaussian mechanism that the guesses rule out. Exact for unsampled Gaussian
/// noise; for many sampled steps it is an approximation. 0 for delta = 0.
OneRunBound gaussian_one_run_bound(std::span<const double> scores, std::span<const bool> included, double delta,
                                   double confidence);

/// Whether these guesses, or better ones, have a probability below `tail` under every mechanism that is as private as
/// a Gaussian one with noise 1 / mu.
bool rules_out_gaussian(const Guesses& guesses, double mu, double tail);

}  // namespace chorus::inline audit
