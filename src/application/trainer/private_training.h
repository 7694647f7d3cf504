#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "application/trainer/step_recorder.h"
#include "application/trainer/train_client.h"
#include "application/trainer/trainer_config.h"
#include "core/ports/example_guard.h"
#include "core/ports/workbench.h"

namespace chorus::inline trainer {

/// An example of a client: its rows, `count` of ClientData::rows from `begin` on (more than one where a text was cut
/// into windows).
struct ExampleRows {
  std::size_t begin = 0, count = 0;
};
std::vector<ExampleRows> examples_of(const ClientData& data);

/// What a round costs a client with so many examples: batches are Poisson samples of batch_size * accumulate examples
/// on average, and there are as many as in training without privacy.
ExampleWork private_work(const TrainerConfig& config, ClientId client, std::size_t examples);

/// The gradients of single examples in one pass, as rows of the cohort dimension: every example is a client of its own,
/// and all of them have the same values [P], which are not copied. What trains has a gradient [n, P]; a frozen weight
/// is one matmul for all. On a GPU small passes are recorded (step_recorder.h): samples differ in size, so their passes
/// are filled up with examples whose gradients nobody reads, to few different sizes.
///
///     ExampleGradients pass(trainer, config, values, 16);
///     at::Tensor gradients = pass.run({client, examples, moment, step});     // [n, P], n <= 16
class ExampleGradients {
 public:
  /// `values` [P] on the device; the caller may change them between passes. `most`: examples of a pass.
  ExampleGradients(const TrainerInput& trainer, const TrainerConfig& config, const at::Tensor& values,
                   std::int64_t most);
  ExampleGradients(const ExampleGradients&) = delete;
  ExampleGradients& operator=(const ExampleGradients&) = delete;
  ~ExampleGradients();

  struct Pass {
    const TrainClient& client;
    std::span<const ExampleRows> examples;
    TrainMoment moment = {};
    std::uint64_t number = 0;  ///< of the pass: enters the draws of dropout
  };
  /// Memory of its own, overwritten by the next pass.
  at::Tensor run(const Pass& pass);

 private:
  std::int64_t rows_for(std::int64_t examples) const;

  const TrainerInput& trainer_;
  bool dropout_, bfloat16_;
  std::int64_t most_;
  at::Tensor values_;
  std::unique_ptr<StepRecorder> recorder_;  // null where passes are not recorded
  Params params_;                           // the recorder's, or views of the values
};

/// How clients train privately.
struct PrivateTrainingInput {
  const TrainerInput& trainer;
  const TrainerConfig& config;  ///< with `privacy`
  ExampleGuard& guard;
  TrainMoment moment = {};
  const TrainWish& wish;
  double example_bytes = 0;  ///< of a pass, for one more example
};

/// DP-SGD on each client (Abadi et al. 2016). In each of `steps` steps, with q = batch / examples,
///
///     S = every example with probability q, in secret
///     g = (sum_{i in S} min(1, C / |g_i|) g_i + N(0, (z C)^2)) / batch
///     one optimizer step with g
///
/// Large samples are computed in virtual batches. An empty sample is noise alone. All steps are charged to the client's
/// budget before the first; a client without budget fails. Everything after the noise (proximal term, control variate,
/// optimizer) is post-processing. `trainer.clip` is not used, and the loss is not released: it is not a number in the
/// result.
TrainResult train_privately(const PrivateTrainingInput& input, std::span<const TrainClient> clients,
                            const at::Tensor& start, std::span<ClientState* const> states);

}  // namespace chorus::inline trainer
