#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "application/optim/optimizer.h"
#include "core/device/gpu_lanes.h"
#include "core/tensor/params.h"

namespace chorus {

/// A step of an optimiser that begins while the backward pass goes on: the weights of a product are changed as soon as
/// their gradients are there, beside the products of the layers below. An optimiser waits for memory and products for
/// arithmetic, so together they take less time than one after the other; and such gradients need not be kept.
///
///     EarlyStep step(lanes, optimizer, params, {rates});
///     params.begin_grads(used, step.taker());
///     ...                  // there and back
///     step.finish(used);   // what is left; its end waits for all
class EarlyStep {
 public:
  struct Input {
    std::vector<double> rates;  ///< of each client
    bool last = false;          ///< no step follows
  };
  EarlyStep(const GpuLanes& lanes, Optimizer& optimizer, const Params& params, const Input& input);
  EarlyStep(const EarlyStep&) = delete;
  EarlyStep& operator=(const EarlyStep&) = delete;
  /// What comes then comes after all that was begun.
  ~EarlyStep() { lanes_.join(); }

  Params::Taker taker();
  /// Changes those of a client's first `used` numbers that were not taken, by the gradients of params.
  void finish(std::int64_t used);

 private:
  void part(std::int64_t first, std::int64_t count, const at::Tensor& gradients);

  const GpuLanes& lanes_;
  Optimizer& optimizer_;
  Params params_;
  bool last_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;  // from, to
};

}  // namespace chorus
