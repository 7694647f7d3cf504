#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct ApflConfig {
  double alpha = 0.5;            ///< initial share of the own model in the mixture
  bool adaptive = true;          ///< alpha is learned
  std::int64_t local_steps = 5;  ///< steps per client and round

  void describe(ConfigVisitor& visitor);
};

/// APFL (Deng et al. 2020, algorithm 1): client k uses a mixture of its own model v_k and the global one, vbar_k =
/// alpha_k v_k + (1 - alpha_k) w. In every local step, on one minibatch and with the trainer's learning rate eta,
///     w_k   <- w_k - eta grad F_k(w_k)                                   (the trainer's optimizer)
///     v_k   <- v_k - eta alpha_k grad F_k(vbar_k)
///     alpha <- alpha_k - eta <grad F_k(vbar_k), v_k - w_k>, clipped to [0, 1], if `adaptive`
/// with vbar_k from before the step. The server averages w_k as in FedAvg. v_k and alpha_k are the client's state. v_k
/// starts as w. A newcomer's v_k is w after one round of local training, its alpha_k the initial one.
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
