#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct PFedMeConfig {
  double lambda = 15;             ///< of the Moreau envelope
  double eta = 0.005;             ///< learning rate of the local model
  double beta = 1;                ///< step size of the server towards the mean
  std::int64_t local_rounds = 5;  ///< R: steps of the local model per round
  std::int64_t inner_steps = 5;   ///< K: optimizer steps for each of these

  void describe(ConfigVisitor& visitor);
};

/// pFedMe (T Dinh et al. 2020, algorithm 1) minimises the mean of the clients' Moreau envelopes
///     G_k(w) = min_theta F_k(theta) + lambda / 2 |theta - w|^2,    grad G_k(w) = lambda (w - theta_k(w)).
/// A client starts with w_k = theta_k = w_t. R times it makes K optimizer steps of theta_k on the expression above, one
/// minibatch each, and then w_k <- w_k - eta lambda (w_k - theta_k). The server sets
///     w_{t+1} = (1 - beta) w_t + beta sum_k p_k w_k.
/// theta_k is the client's own model and its state; a newcomer computes it from w_t in R K steps with w_k = w_t. Every
/// client makes R K steps, regardless of its number of examples: trainer.epochs and trainer.steps are ignored.
class PFedMe : public Algorithm {
 public:
  explicit PFedMe(const PFedMeConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;

 private:
  void describe_to(Request& request) const;

  PFedMeConfig config_;
};

}  // namespace chorus::inline personal
