#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline federated {

struct FedOptConfig {
  enum class Server { kSgd, kAdagrad, kAdam, kYogi };

  Server server = Server::kSgd;  ///< the server's optimizer
  double learning_rate = 1.0;    ///< of the server
  double momentum = 0.9;         ///< of sgd
  double beta1 = 0.9;            ///< of adagrad, adam, yogi
  double beta2 = 0.99;           ///< of adam, yogi
  double tau = 1e-3;             ///< of adagrad, adam, yogi: the degree of adaptivity

  void describe(ConfigVisitor& visitor);
};

/// FedOPT (Reddi et al. 2021; Lin et al. 2022, section 2): the server's optimizer uses the mean update D_t = sum_k p_k
/// (w_k - w_t) as its negative gradient.
///     sgd:      b = momentum b + D,  w += lr b                     (momentum 0, lr 1: FedAvg)
///     others:   m = b1 m + (1 - b1) D,  w += lr m / (sqrt(v) + tau), v starting at tau^2, with
///     adagrad:  v += D^2
///     adam:     v = b2 v + (1 - b2) D^2
///     yogi:     v -= (1 - b2) D^2 sign(v - D^2)
class FedOpt : public Algorithm {
 public:
  explicit FedOpt(const FedOptConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

 private:
  void step(const at::Tensor& model, const at::Tensor& update);

  FedOptConfig config_;
  at::Tensor first_, second_;  // [P]: momentum, squares
};

}  // namespace chorus::inline federated
