#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace chorus::inline analytics {

struct PrivateCountsConfig {
  double epsilon = 4;
  double delta = 1e-6;     ///< half for the noise, half for words that nobody else has
  std::size_t most = 200;  ///< words of a client; its most frequent ones
};

/// Which words clients use and how often, with user-level differential privacy and without a list of words to begin
/// with (DP set union, Korolova et al. 2009; Gopi et al. 2020). A client contributes its `most` most frequent words,
/// weighted by their counts to an L2 norm of 1. The sums get Gaussian noise, and a word is released where its noisy sum
/// is above
///
///     threshold = 1 + sigma Phi^-1((1 - delta/2)^(1 / most))
///
/// so that a word that only one client has is released with a probability of at most delta / 2. Sums are integers, as
/// in ClippedSum. The server (or a secure sum) is trusted.
///
///     PrivateCounts counts({.epsilon = 4});
///     for (client) counts.add(words_of(client));
///     for (const auto& [word, weight] : counts.release()) ...
class PrivateCounts {
 public:
  /// ConfigError for an epsilon or delta that is out of range.
  explicit PrivateCounts(const PrivateCountsConfig& config);

  void add(const std::map<std::string, double>& words);
  /// Sums of weights, the largest first. Call it once: the noise of two calls would average out.
  std::vector<std::pair<std::string, double>> release();

  double noise() const { return noise_; }
  double threshold() const { return threshold_; }
  std::size_t clients() const { return clients_; }

 private:
  PrivateCountsConfig config_;
  double noise_ = 0, threshold_ = 0, units_ = 0;  // units of the grid per 1
  std::map<std::string, std::int64_t> sums_;
  std::size_t clients_ = 0;
  bool released_ = false;
};

}  // namespace chorus::inline analytics
