#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct ApflConfig {
  double alpha = 0.5;            ///< share of the own model in the mixture, at first
  bool adaptive = true;          ///< alpha is learnt
  std::int64_t local_steps = 5;  ///< steps of each client in a round

  void describe(ConfigVisitor& visitor);
};

/// APFL (Deng et al. 2020, algorithm 1): client k answers with a mixture of its own model v_k and the global one,
/// vbar_k = alpha_k v_k + (1 - alpha_k) w. In every local step, on one minibatch and at the trainer's rate eta,
///     w_k   <- w_k - eta grad F_k(w_k)                                   (the trainer's optimizer)
///     v_k   <- v_k - eta alpha_k grad F_k(vbar_k)
///     alpha <- alpha_k - eta <grad F_k(vbar_k), v_k - w_k>, kept within [0, 1], where it is `adaptive`
/// with vbar_k of the values before the step. The server averages w_k as FedAvg does. v_k and alpha_k are the client's
/// state. v_k begins as w. A newcomer's v_k is w after one round of local training, its alpha_k the initial one.
class Apfl : public Algorithm {
 public:
  explicit Apfl(const ApflConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;

 private:
  void describe_to(Request& request) const;

  ApflConfig config_;
};

}  // namespace chorus::inline personal
