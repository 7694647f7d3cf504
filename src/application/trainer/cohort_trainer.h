#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "application/models/activation_cache.h"
#include "application/tasks/task.h"
#include "application/trainer/step_recorder.h"
#include "application/trainer/trainer_config.h"
#include "core/ports/workbench.h"

namespace chorus {

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

/// Local training, as one process sees it (paper 000, appendix F.2): steps of an optimiser over shuffled batches. C
/// clients train at once, each with values, batches, masks and schedule of its own; one that has made its steps leaves
/// the computation. Alone or among others, a client draws the same numbers.
///
///     TrainResult result = CohortTrainer({*task, *model, params}, config).train(clients, start, {seed, round}, {});
///
/// A client whose loss is not a number, or whose texts encode to no rows at all, is reported as failed; other clients
/// are unaffected.
class CohortTrainer {
 public:
  CohortTrainer(const TrainerInput& input, const TrainerConfig& config);

  /// How many optimiser steps a client with so many rows makes.
  std::int64_t steps(std::size_t rows) const;

  /// `clients` in the order of falling `steps`, those without rows last; `start` [P] or [C, P]; `states`, one a client,
  /// are read and written when the wish is to keep the optimiser.
  TrainResult train(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                    const TrainWish& wish, std::span<ClientState* const> states) const;

  /// The mean loss over all rows and, if asked for, its gradient.
  GradientResult gradient(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                          bool want_gradients) const;

  /// Bytes one more client of the cohort takes: values, gradients, optimiser, activations of a batch of `tokens`.
  double client_bytes(double tokens) const;

 private:
  class Session;
  /// How a cohort's values are kept while it trains.
  enum class Keep {
    kAll,
    kUsedWords,  ///< those of words that a client does not have are left out of its computation
    kRecorded,   ///< where passes were recorded
  };
  Keep keep_of(const TrainWish& wish, std::int64_t clients) const;
  /// Whether no gradient is asked for again once its step is made.
  bool steps_early(const TrainWish& wish, Keep keep) const;
  TrainResult train_cohort(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                           const TrainWish& wish, std::span<ClientState* const> states) const;
  GradientResult gradient_of_rows(std::span<const TrainClient> clients, const at::Tensor& start,
                                  const TrainMoment& moment, bool want_gradients) const;

  TrainerInput input_;
  TrainerConfig config_;
  bool elementwise_;  // the optimiser leaves what has no gradient alone
};

}  // namespace chorus
