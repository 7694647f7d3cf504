#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "application/tasks/task_batch.h"
#include "core/device/gpu_graph.h"
#include "core/ports/learner.h"
#include "core/tensor/params.h"

namespace chorus::inline trainer {

/// What a pass computes.
enum class PassKind { kTrain, kFit, kPredict, kProbe };

/// The input of a forward (and backward) pass besides the parameters.
struct PassInput {
  TaskBatch batch;
  Dropout dropout;          ///< off, or with its seeds on the device
  at::Tensor factors = {};  ///< [C] weights of the losses in the gradient
  bool begins = true;       ///< first pass of a step: gradients are overwritten, not accumulated
  PassKind kind = PassKind::kTrain;
  Targets targets = {};  ///< of a fit, on the device

  /// Passes of the same shape launch the same kernels on other data.
  std::vector<std::int64_t> shape() const;
};

/// The input of a pass at fixed addresses; `take` overwrites it with the input of another pass of the same shape.
class HeldInput {
 public:
  explicit HeldInput(const PassInput& like);
  void take(const PassInput& other);
  PassInput& input() { return input_; }

 private:
  PassInput input_;
  std::vector<std::shared_ptr<Packing>> packings_;  // the input's packings, writable; null if there is none
};

/// Forward (and backward) passes of a cohort on a GPU, recorded by the shape of their batches (GpuGraph) and launched
/// again for every batch of that shape. A recording holds addresses, so values, gradients and batches are in memory
/// that is kept between rounds.
///
///     std::unique_ptr<StepRecorder> recorder = recorders.lend(base, 10, {.shadow = true});
///     Params params = recorder->params().first(10);
///     at::Tensor loss = recorder->run(input, [&](PassInput& in) { ...; return loss; });   // [C]
///     recorders.take_back(std::move(recorder));
class StepRecorder {
 public:
  /// Runs a pass: reads `input`, leaves gradients, returns the losses (of a prediction: the logits).
  using Pass = std::function<at::Tensor(PassInput& input)>;

  /// The memory of a recorder.
  struct Kind {
    bool shadow = false;    ///< with a bfloat16 shadow copy
    bool examples = false;  ///< rows are examples of one client: all read one vector of values, which is not set
    bool operator==(const Kind&) const = default;
  };
  StepRecorder(const Params& base, std::int64_t clients, Kind kind);

  const Params& params() const { return params_; }

  /// Runs `pass`: directly the first time a shape is seen, which compiles kernels; the second time it is recorded, and
  /// from then on the recording is launched. A pass that cannot be recorded always runs directly.
  at::Tensor run(PassInput& input, const Pass& pass);
  /// Number of passes launched from a recording.
  std::int64_t launched() const { return launched_; }

 private:
  struct Recording {
    int failures = 0;
    std::unique_ptr<HeldInput> input;
    at::Tensor result;
    std::unique_ptr<GpuGraph> graph;
  };

  Kind kind_;
  Params params_;
  std::shared_ptr<GpuGraph::Memory> memory_;
  std::map<std::vector<std::int64_t>, Recording> recordings_;
  std::int64_t recorded_ = 0, launched_ = 0;
  std::uint32_t version_;  // of the frozen vector, of which recordings read copies
  friend class StepRecorders;
};

/// A pool of recorders. Thread-safe; a recorder serves one cohort at a time.
class StepRecorders {
 public:
  /// A recorder for at least `clients` rows on the frozen vector of `base`.
  std::unique_ptr<StepRecorder> lend(const Params& base, std::int64_t clients, StepRecorder::Kind kind);
  void take_back(std::unique_ptr<StepRecorder> recorder);
  /// Frees recorders that are not in use.
  void forget();

  /// Whether to record passes over this many trainable elements: large passes keep a GPU busy anyway, and their memory
  /// is better used for more clients. `waits`: the GPU is waited for after each pass, so that it is idle while the next
  /// one is launched.
  static bool worth_it(at::Device device, std::int64_t numbers, bool waits = false);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<StepRecorder>> idle_;
};

}  // namespace chorus::inline trainer
