#pragma once

#include <map>
#include <string>
#include <vector>

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct AflConfig {
  double rate = 0.1;  ///< step size of the clients' weights

  void describe(ConfigVisitor& visitor);
};

/// Agnostic federated learning (Mohri et al. 2019): min_w max_lambda sum_k lambda_k F_k(w) over the simplex. The server
/// has a weight for every client, initially equal. In a round
///     w_{t+1} = w_t + sum_k lambda_k (w_k - w_t) / sum_k lambda_k      over the cohort
///     lambda  = projection onto the simplex of lambda + rate F_k(w_t)  for the cohort
/// so clients with a high loss gain weight. Converges to the best model for the worst client if every client takes part
/// in every round; with sampling it is a heuristic.
class Afl : public Algorithm {
 public:
  explicit Afl(const AflConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

  const std::map<ClientId, double>& weights() const { return weights_; }

 private:
  AflConfig config_;
  std::map<ClientId, double> weights_;
};

/// The nearest point of the simplex {x >= 0, sum x = 1} (Duchi et al. 2008).
std::vector<double> on_simplex(std::vector<double> point);

}  // namespace chorus::inline personal
