#pragma once

#include <cstdint>

#include "application/models/activation_cache.h"
#include "application/tasks/task.h"
#include "core/base/client_id.h"
#include "core/ports/example_guard.h"

namespace chorus::inline trainer {

class StepRecorders;

/// What is trained: a task, its model, and the values that frozen parameters have. Shared by all clients.
struct TrainerInput {
  const Task& task;
  const Model& model;
  const Params& base;                  ///< C = 1; its frozen vector is used, its device is where the work is done
  ActivationCache* cache = nullptr;    ///< of what frozen bottom layers compute
  StepRecorders* recorders = nullptr;  ///< recorded GPU passes, kept between rounds; null: no recording
  ExampleGuard* guard = nullptr;       ///< of trainer.privacy; null: without it
};

/// The data of one client.
struct TrainClient {
  ClientId id = 0;
  ClientData data = {};
  double examples = 0;
};

/// Seed and round: with the client's id, the key of every random draw. Rounds count from 1; `round` of `rounds`.
struct TrainMoment {
  std::uint64_t seed = 0, round = 1, rounds = 1;
};

}  // namespace chorus::inline trainer
