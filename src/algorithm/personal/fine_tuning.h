#pragma once

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

struct FineTuningConfig {
  std::int64_t passes = 1;  ///< rounds of local training from the global model

  void describe(ConfigVisitor& visitor);
};

/// FedAvg, then fine-tuning: rounds are FedAvg's, and client k's own model is the global one after `passes` rounds of
/// local training on its data,
///     v_k = train_k(w_T).
/// The baseline of every personalized method (Yu et al. 2020; Cheng et al. 2021). Clients keep nothing: the own model
/// is computed from the global one, so a client that never took part has one, too.
class FineTuning : public Algorithm {
 public:
  explicit FineTuning(const FineTuningConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;

 private:
  FineTuningConfig config_;
};

/// Scores the global model after `passes` rounds of each client's training.
Request fine_tuning_request(const at::Tensor& model, std::uint64_t round, std::int64_t passes);
/// Scores each client's local training from the initial network; nothing is downloaded.
Request alone_request(std::uint64_t round, std::int64_t passes);

}  // namespace chorus::inline personal
