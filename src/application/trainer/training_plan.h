#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "application/trainer/train_client.h"
#include "application/trainer/trainer_config.h"

namespace chorus::inline trainer {

/// How much each client of a cohort trains, and at which learning rates.
struct TrainingPlan {
  std::vector<std::int64_t> batches = {};   ///< total batches of each client with rows, in descending order
  std::vector<std::int64_t> schedule = {};  ///< optimizer steps of each client's learning-rate schedule

  /// How many clients (the first ones) read batch `number`.
  std::int64_t readers(std::int64_t number) const;
  /// The learning rates of the first `clients` in optimizer step `step`.
  std::vector<double> rates(const TrainerConfig& config, const TrainMoment& moment, std::int64_t clients,
                            std::int64_t step) const;
  /// 1 / batches per client in the optimizer step that begins at batch `first`.
  std::vector<double> shares(std::int64_t accumulate, std::int64_t clients, std::int64_t first) const;
  /// Keeps only the clients at these ascending indices.
  void retain(std::span<const std::size_t> clients);
};

}  // namespace chorus::inline trainer
