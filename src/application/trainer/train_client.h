#pragma once

#include <cstdint>

#include "application/models/activation_cache.h"
#include "application/tasks/task.h"
#include "core/base/client_id.h"

namespace chorus::inline trainer {

class StepRecorders;

/// What is trained: a task, its model, and the values that frozen parameters have. Shared by all clients.
struct TrainerInput {
  const Task& task;
  const Model& model;
  const Params& base;                  ///< C = 1; its frozen vector is used, its device is where the work is done
  ActivationCache* cache = nullptr;    ///< of what frozen bottom layers compute
  StepRecorders* recorders = nullptr;  ///< where passes on a GPU are kept between rounds; null: nothing is recorded
};

/// The data of one client.
struct TrainClient {
  ClientId id = 0;
  ClientData data = {};
  double examples = 0;
};

/// When and with what seed: enters every random draw, with the client's id. Rounds count from 1; `round` of `rounds`.
struct TrainMoment {
  std::uint64_t seed = 0, round = 1, rounds = 1;
};

}  // namespace chorus::inline trainer
