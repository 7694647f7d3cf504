#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline compression {

struct SignVoteConfig {
  double learning_rate = 1e-3;  ///< how far every parameter moves a round

  void describe(ConfigVisitor& visitor);
};

/// signSGD with majority vote (Bernstein et al. 2018, algorithm 3; 2019). Every client votes, for every parameter, on
/// the direction of its update, and the server goes a fixed step where most of them want:
///     w_{t+1} = w_t + lr sgn(sum_k p_k sgn(w_k - w_t))
/// A tie moves nothing. With weighting: equal every client has one vote, as in the paper (where clients make one
/// gradient step); with examples or batches votes weigh that much. The vote sees signs only, so with the filter `sign`
/// (compression: {up: [sign]}) it comes out the same while one bit a parameter travels.
class SignVote : public Algorithm {
 public:
  explicit SignVote(const SignVoteConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;

 private:
  SignVoteConfig config_;
};

}  // namespace chorus::inline compression
