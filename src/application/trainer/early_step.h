#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "application/optim/optimizer.h"
#include "core/device/gpu_streams.h"
#include "core/tensor/params.h"

namespace chorus::inline trainer {

/// An optimizer step during the backward pass: the weights of a matmul are updated as soon as their gradient is
/// computed, on a low-priority stream beside the matmuls of the layers below. An optimizer is bound by memory and
/// matmuls by arithmetic, so running both at once takes less time; and these gradients need no buffer.
///
///     EarlyStep step(streams, optimizer, params, {rates});
///     params.writes().begin(used, step.taker());
///     ...                  // forward and backward pass
///     step.finish(used);   // everything else; the destructor joins the streams
class EarlyStep {
 public:
  struct Input {
    std::vector<double> rates;  ///< learning rate of each client
    bool last = false;          ///< no step follows
    bool once = false;          ///< a new optimizer follows
  };
  EarlyStep(const GpuStreams& streams, Optimizer& optimizer, const Params& params, const Input& input);
  EarlyStep(const EarlyStep&) = delete;
  EarlyStep& operator=(const EarlyStep&) = delete;
  /// Later work waits for all parts of the step.
  ~EarlyStep() { streams_.join(); }

  GradientTaker taker();
  /// Updates those of a client's first `used` elements that were not taken, with the gradients of params.
  void finish(std::int64_t used);

 private:
  void part(std::int64_t first, std::int64_t count, const at::Tensor& gradients);

  const GpuStreams& streams_;
  Optimizer& optimizer_;
  Params params_;
  bool last_, once_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;  // from, to
};

}  // namespace chorus::inline trainer
