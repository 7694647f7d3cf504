#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "algorithm/secure_mean/sum_plan.h"

namespace chorus::inline secure_mean {

/// What a client says about its work besides the tensors. It travels in the masked vector, never in the clear: counts
/// and losses say a lot about the data of one client.
struct WorkFacts {
  double weight = 1;  ///< by the round's weighting; whole, cut off at ScaleSettings::most_weight
  double examples = 0, steps = 0, seconds = 0, loss = 0;
};

/// Turns the tensors of a client into one vector of a ring or a field, and the sum of such vectors into means:
///
///     [ w q(x_1), w, checksum ]  for each tensor (weight 1 for those that count equally), CommonScale
///     [ examples, steps, milliseconds, elements cut off, w loss ]
///
/// With SumPlan::noise the tensor is a NoisyScale's, and the facts are 0: noise would have to protect them, too.
///
///     const InputCodec codec(plan);
///     RingVector input = codec.encode({update}, facts, client).value();
///     InputCodec::Sums sums = codec.decode(sum, survivors).value();
class InputCodec {
 public:
  /// ConfigError when a sum could overflow.
  explicit InputCodec(const SumPlan& plan);

  std::size_t length() const;
  /// int64 [k]: the positions that are summed (SumPlan::keep); undefined: all.
  const at::Tensor& positions() const { return positions_; }

  /// Failure for values that are not finite and for impossible facts. Tensors may be on any device.
  Result<RingVector> encode(const std::vector<at::Tensor>& tensors, const WorkFacts& facts, ClientId client) const;

  struct Sums {
    std::vector<at::Tensor> means;  ///< on the CPU
    WorkFacts facts = {};           ///< sums over the clients; the loss is the weighted mean
    double cut = 0;                 ///< share of elements that were cut off
    double shrunk = 0;              ///< share of updates that were scaled down to the largest norm
  };
  Result<Sums> decode(const RingVector& sum, std::size_t clients) const;

 private:
  double most_fact() const;  // of one client
  double loss_levels() const;

  std::int64_t size_;
  at::Tensor positions_;
  std::size_t clients_, values_;
  unsigned ring_bits_, capacity_;
  std::uint64_t most_weight_, seed_, round_;
  double clip_;
  std::vector<bool> equal_;
  std::vector<CommonScale> scales_;  // one per tensor
  std::optional<NoisyScale> noisy_;  // instead of them
};

/// The facts in what a training procedure replies. DataError when they are impossible.
WorkFacts facts_of(const Message& reply, Weighting weighting);

}  // namespace chorus::inline secure_mean
