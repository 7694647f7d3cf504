#pragma once

#include <memory>
#include <vector>

#include "application/metrics/breakdown.h"
#include "application/peft/tuned_network.h"
#include "application/tasks/evaluate.h"
#include "application/trainer/trainer_config.h"
#include "core/ports/federation.h"
#include "core/ports/scorer.h"

namespace chorus::inline experiment {

/// Scores by a task's metric. Borrows everything.
class TaskScorer : public Scorer {
 public:
  struct Input {
    const Task& task;
    const TunedNetwork& network;  ///< its frozen values and its device are used
    EvaluationSet test;
    const Federation& clients;  ///< their training examples are their activity, for deciles
    std::uint64_t seed = 0;
    ActivationCache* cache = nullptr;
    TrainerConfig::Precision precision = TrainerConfig::Precision::kFloat32;  ///< of the run
    int workers = 0;  ///< threads on a CPU; 0: one per core. Scores do not depend on it
    /// Test examples as attackers want them answered; the share of them that are is "attack_success". Null: none.
    const EvaluationSet* attacked = nullptr;
  };

  explicit TaskScorer(const Input& input) : input_(input) {}

  Scores score(const at::Tensor& model, const Variant& variant) override;
  std::string fault_of(const Message& reply) const override;
  Scores pooled(const ClientTotals& totals) const override;
  std::vector<ClientGroupScores> deciles(const ClientTotals& totals) const override;
  std::vector<ClientGroupScores> by_client(const ClientTotals& totals) const override;

 private:
  Breakdown breakdown(const ClientTotals& totals) const;

  Input input_;
};

}  // namespace chorus::inline experiment
