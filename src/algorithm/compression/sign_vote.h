#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline compression {

struct SignVoteConfig {
  double learning_rate = 1e-3;  ///< step size of every parameter per round

  void describe(ConfigVisitor& visitor);
};

/// signSGD with majority vote (Bernstein et al. 2018, algorithm 3; 2019). For every parameter, every client votes on
/// the direction of its update, and the server makes a fixed step in the direction of the majority:
///     w_{t+1} = w_t + lr sgn(sum_k p_k sgn(w_k - w_t))
/// A tie moves nothing. With weighting: equal every client has one vote, as in the paper (where clients make one
/// gradient step); with examples or batches, votes have that weight. The vote uses signs only, so the filter `sign`
/// (compression: {up: [sign]}) does not change its result and sends one bit per parameter.
class SignVote : public Algorithm {
 public:
  explicit SignVote(const SignVoteConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;

 private:
  SignVoteConfig config_;
};

}  // namespace chorus::inline compression
