#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct ScaffoldConfig {
  double learning_rate = 1.0;  ///< of the server

  void describe(ConfigVisitor& visitor);
};

/// SCAFFOLD (Karimireddy et al. 2020), option II. The server has a control variate c, and every client k one of its
/// own, c_k, which it keeps between rounds; all start at 0. A client's gradients are corrected by c - c_k, and after K
/// steps with learning rates eta_i
///     c_k' = c_k - c + (w_t - w_k) / sum_i eta_i
///     w_{t+1} = w_t + lr sum_k p_k (w_k - w_t),   c += (1 / N) sum_{k in S} (c_k' - c_k)
/// (in the paper p_k = 1 / |S|, which is weighting: equal). Every client counts once in c, and only clients whose reply
/// was used keep their c_k', so c stays the mean of all c_k. The estimate c_k' is a gradient only if the client makes
/// plain gradient steps.
class Scaffold : public Algorithm {
 public:
  explicit Scaffold(const ScaffoldConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

 private:
  ScaffoldConfig config_;
  at::Tensor control_;  // c, [P]
};

}  // namespace chorus::inline federated
