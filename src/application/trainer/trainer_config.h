#pragma once

#include <cstdint>
#include <optional>

#include "application/models/activation_cache.h"
#include "application/optim/optimizer.h"
#include "application/optim/schedule.h"
#include "core/config/registry.h"
#include "core/ports/example_guard.h"

namespace chorus::inline trainer {

/// How a client trains in one round.
struct TrainerConfig {
  enum class Precision { kFloat32, kTf32, kBFloat16 };

  std::int64_t epochs = 1;                           ///< passes over the client's data
  std::optional<std::int64_t> steps = {};            ///< optimizer steps instead of epochs
  std::int64_t batch_size = 8;                       ///< rows of a batch
  std::int64_t accumulate = 1;                       ///< batches whose gradients are averaged before a step
  Choice<Optimizers> optimizer{"adamw"};             ///< turns a gradient into a step
  double learning_rate = 5e-5;                       ///< the highest; multiplied by the schedule's factor
  ScheduleConfig schedule = {};                      ///< within a round, or across rounds
  double clip = 1.0;                                 ///< largest L2 norm of a client's gradient; 0: no limit
  double weight_decay = 0;                           ///< of the optimizer
  bool decay_matrices_only = true;                   ///< biases and normalisation weights do not decay
  bool dropout = true;                               ///< as the model's configuration says; off: none
  Precision precision = Precision::kFloat32;         ///< of matmuls' factors; sums are float32
  ActivationCache::Config cache = {};                ///< of what frozen bottom layers compute
  std::optional<ExamplePrivacyConfig> privacy = {};  ///< differential privacy for every example (DP-SGD)
  double label_epsilon = 0;                          ///< of every label (core/ports/label_guard.h); 0: none

  void describe(ConfigVisitor& visitor);
};

}  // namespace chorus::inline trainer
