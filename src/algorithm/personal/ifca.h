#pragma once

#include "algorithm/personal/clusters.h"

namespace chorus::inline personal {

struct IfcaConfig {
  std::int64_t clusters = 2;  ///< K
  std::int64_t warm_up = 1;   ///< rounds in which clients are assigned to clusters at random

  void describe(ConfigVisitor& visitor);
};

/// IFCA (Ghosh et al. 2020, algorithm 1, model averaging). The server has K models. Every client of the round receives
/// all of them, chooses the one with the lowest loss on its training examples,
///     c_k = argmin_j F_k(w_j),
/// trains it, and the server averages per cluster. All models start from the run's network; in the first `warm_up`
/// rounds clients are assigned at random, which makes the models differ. A request carries K models down, a reply one
/// up.
///
/// A client's own model is the one with the lowest loss, also for newcomers. The run's model is the mean of the
/// clusters that trained last, for reference.
class Ifca : public Algorithm {
 public:
  explicit Ifca(const IfcaConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

  const ClusterModels& clusters() const { return clusters_; }

 private:
  IfcaConfig config_;
  ClusterModels clusters_;
};

}  // namespace chorus::inline personal
