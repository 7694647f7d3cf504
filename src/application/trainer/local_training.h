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
  std::vector<TrainClient> clients = {};  ///< most batches first, those without rows last
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
/// It keeps its position: train(2), train(3) is bit-identical to train(5).
class LocalTraining {
 public:
  LocalTraining(LocalTrainingInput input, std::vector<ClientBatches> batches, std::unique_ptr<ValueStore> store);
  LocalTraining(const LocalTraining&) = delete;
  LocalTraining& operator=(const LocalTraining&) = delete;

  /// The record of some steps.
  struct Record {
    std::vector<at::Tensor> losses = {};  ///< [A] per batch, of the clients that read it
    std::vector<double> rate_sum = {};    ///< per client
  };
  /// Options of the steps.
  struct How {
    const GpuStreams* streams = nullptr;  ///< if given, the optimizer runs during the backward pass (early_step.h)
    bool last = false;                    ///< the optimizer is not used after these steps
  };
  /// The next `steps` optimizer steps, or fewer if no client has batches left.
  Record train(std::int64_t steps, const How& how);
  Record train(std::int64_t steps) { return train(steps, {}); }

  /// A pass of all clients over a given batch (BatchReader::read_rows).
  struct GivenPass {
    Targets targets = {};                 ///< of a step, for its loss
    bool recordable = false;              ///< it needs neither the rows nor the data of the batch
    const GpuStreams* streams = nullptr;  ///< of a step, as in How
  };
  /// One optimizer step with this loss [C]. The reading must live until the GPU has finished.
  using Loss = std::function<at::Tensor(const Output& output, const PassInput& input)>;
  Record step_on(const Reading& reading, const GivenPass& pass, const Loss& loss);
  /// What `read` makes of the model's output with the reading's dropout; no gradients.
  using Read = std::function<at::Tensor(const Output& output, const TaskBatch& batch)>;
  at::Tensor predict(const Reading& reading, const GivenPass& pass, const Read& read);

  /// The loss of a given batch and, if wanted, its gradient [C, P]; no step.
  ProbeResult probe(Reading reading, const ProbeWish& wish);

  /// Resets the optimizer, and starts a learning-rate schedule of `steps` steps. With one step, the optimizer keeps
  /// no state, and the next step needs another call.
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
    bool begins = true;  // first pass of a step: gradients are overwritten, not accumulated
    std::int64_t used = 0;
    GradientTaker taker = {};
    const GpuStreams* streams = nullptr;
    std::int64_t last_batch = 0;  // of this call
  };
  at::Tensor run_pass(Reading reading, const Pass& pass);
  PassInput input_of(const Reading& reading, PassKind kind) const;
  at::Tensor teacher_loss(const Output& output, const TaskBatch& batch) const;
  void finish_step(const ValueStore::Step& step);
  std::vector<double> next_rates(std::int64_t clients, Record& record);
  at::Tensor factors(std::int64_t clients, std::int64_t number);

  LocalTrainingInput input_;
  std::vector<ClientBatches> batches_;
  std::unique_ptr<ValueStore> store_;
  BatchReader reader_;
  std::unique_ptr<Optimizer> optimizer_;
  bool once_ = false;            // the optimizer was renewed for one step
  std::int64_t step_ = 0;        // in the schedule
  std::int64_t next_batch_ = 0;  // in the data
  at::Tensor factors_;           // weights of the losses in the gradient
};

}  // namespace chorus::inline trainer
