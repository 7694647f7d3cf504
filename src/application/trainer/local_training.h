#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "application/optim/optimizer.h"
#include "application/trainer/batch_reader.h"
#include "application/trainer/client_batches.h"
#include "application/trainer/train_client.h"
#include "application/trainer/trainer_config.h"
#include "application/trainer/training_plan.h"
#include "application/trainer/value_store.h"
#include "core/ports/workbench.h"

namespace chorus::inline trainer {

/// Who trains on what, and how.
struct LocalTrainingInput {
  TrainerInput trainer;
  TrainerConfig config = {};
  std::vector<TrainClient> clients = {};  ///< those with most batches first, those without rows last
  TrainMoment moment = {};
  TrainWish wish = {};
  TrainingPlan plan = {};
  bool read_ahead = true;  ///< read the next batch while a GPU works (TrainerPieces)
};

/// Local training of a cohort, as Lin et al. (FedNLP, 2022, appendix F.2) describe it. Each step of the first A
/// clients, those that still have batches, is
///
///     for each of the step's batches: gradients += grad of the mean loss / batches of the step
///     gradients += mu (values - start);  wish.adjust(values, gradients);  frozen gradients = 0
///     clip each client's gradient by its norm;  one optimizer step at the schedule's learning rate
///
/// It keeps its position: train(2), train(3) equals train(5) bit for bit.
class LocalTraining {
 public:
  LocalTraining(LocalTrainingInput input, std::vector<ClientBatches> batches, std::unique_ptr<ValueStore> store);
  LocalTraining(const LocalTraining&) = delete;
  LocalTraining& operator=(const LocalTraining&) = delete;

  /// What some steps did.
  struct Record {
    std::vector<at::Tensor> losses = {};  ///< [A] of each batch, of those who read it
    std::vector<double> rate_sum = {};    ///< of each client
  };
  /// How the steps are made.
  struct How {
    const GpuLanes* lanes = nullptr;  ///< given: the optimizer runs during the backward pass (early_step.h)
    bool last = false;                ///< the optimizer is not used after these steps
  };
  /// The next `steps` optimizer steps, or fewer where no client has batches left.
  Record train(std::int64_t steps, const How& how);
  Record train(std::int64_t steps) { return train(steps, {}); }

  /// One optimizer step of all clients on a given batch (BatchReader::read_rows), with this loss [C].
  using Loss = std::function<at::Tensor(const Output& output, const TaskBatch& batch)>;
  Record step_on(Reading reading, const Loss& loss);

  /// The loss of a given batch and, if wanted, its gradient [C, P]; no step.
  ProbeResult probe(Reading reading, const ProbeWish& wish);

  /// A new optimizer, and a learning-rate schedule of so many steps that begins anew.
  void renew(std::int64_t steps);

  /// Keeps only the clients at these ascending indices.
  void retain(std::span<const std::size_t> clients);

  const LocalTrainingInput& input() const { return input_; }
  ValueStore& store() { return *store_; }
  const ValueStore& store() const { return *store_; }
  Optimizer& optimizer() { return *optimizer_; }
  const BatchReader& reader() const { return reader_; }

 private:
  struct Pass {
    bool begins = true;  // a step: gradients are written, not added to
    std::int64_t used = 0;
    GradientTaker taker = {};
    const GpuLanes* lanes = nullptr;
    std::int64_t last_batch = 0;  // of this call
  };
  at::Tensor run_pass(Reading reading, const Pass& pass);
  void finish_step(const ValueStore::Step& step);
  std::vector<double> next_rates(std::int64_t clients, Record& record);
  at::Tensor factors(std::int64_t clients, std::int64_t number);

  LocalTrainingInput input_;
  std::vector<ClientBatches> batches_;
  std::unique_ptr<ValueStore> store_;
  BatchReader reader_;
  std::unique_ptr<Optimizer> optimizer_;
  std::int64_t step_ = 0;        // in the schedule
  std::int64_t next_batch_ = 0;  // in the data
  at::Tensor factors_;           // of the losses, in the gradient
};

}  // namespace chorus::inline trainer
