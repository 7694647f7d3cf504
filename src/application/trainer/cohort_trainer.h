#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "application/trainer/public_rows.h"
#include "application/trainer/step_recorder.h"
#include "application/trainer/train_client.h"
#include "application/trainer/trainer_config.h"
#include "application/trainer/trainer_pieces.h"
#include "application/trainer/value_store.h"
#include "core/ports/workbench.h"

namespace chorus::inline trainer {

/// Local training of C clients at once (local_training.h), each with its own values, batches, dropout and schedule; one
/// that has made its steps leaves the computation. Alone or among others, a client draws the same random numbers.
///
///     TrainResult result = CohortTrainer({*task, *model, params}, config).train(clients, start, {seed, round}, {});
///
/// A client whose loss is not a number, or whose texts encode to no rows at all, is reported as failed; other clients
/// are unaffected.
class CohortTrainer {
 public:
  CohortTrainer(const TrainerInput& input, const TrainerConfig& config, const TrainerPieces& pieces = {});

  /// How many optimizer steps a client with so many rows makes.
  std::int64_t steps(std::size_t rows) const;

  /// `clients` in the order of falling `steps`, those without rows last; `start` [P] or [C, P]; `states`, one per
  /// client, are read and written when the wish is to keep the optimizer.
  TrainResult train(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                    const TrainWish& wish, std::span<ClientState* const> states) const;

  /// Training that continues over several calls. The public set may be null. The trainer's input must outlive it.
  std::unique_ptr<Learner> learner(std::span<const TrainClient> clients, const at::Tensor& start,
                                   const TrainMoment& moment, const LearnerWish& wish,
                                   std::shared_ptr<const PublicTexts> public_set) const;

  /// The mean loss over all rows and, if asked for, its gradient.
  GradientResult gradient(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                          bool want_gradients) const;

  /// Bytes per additional client of the cohort: values, gradients, optimizer, activations of a batch of `tokens`.
  double client_bytes(double tokens) const;

 private:
  /// How a cohort's values are stored while it trains (value_store.h).
  enum class Memory { kOwn, kBorrowedStart, kUsedWords, kRecorded };
  Memory memory_for(const TrainWish& wish, std::int64_t clients) const;
  std::unique_ptr<ValueStore> make_store(Memory memory, std::int64_t clients, const at::Tensor& start,
                                         std::span<ClientBatches> batches) const;
  bool records(std::int64_t clients, bool waits) const;
  /// Whether no gradient is needed once its optimizer step is made.
  bool steps_early(const TrainWish& wish, Memory memory) const;
  std::int64_t batches(std::size_t rows) const;
  TrainResult train_rows(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                         const TrainWish& wish, std::span<ClientState* const> states) const;
  TrainResult private_rows(std::span<const TrainClient> clients, const at::Tensor& start, const TrainMoment& moment,
                           const TrainWish& wish, std::span<ClientState* const> states) const;
  /// ConfigError under trainer.privacy.
  void refuse_private(const char* what) const;
  GradientResult gradient_of_rows(std::span<const TrainClient> clients, const at::Tensor& start,
                                  const TrainMoment& moment, bool want_gradients) const;

  TrainerInput input_;
  TrainerConfig config_;
  TrainerPieces pieces_;
  bool elementwise_;  // the optimizer leaves what has no gradient alone
};

}  // namespace chorus::inline trainer
