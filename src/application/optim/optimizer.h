#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/registry.h"
#include "core/tensor/layout.h"

namespace chorus::inline optim {

/// What an optimizer works on.
struct OptimizerInput {
  std::shared_ptr<const Layout> layout;
  std::int64_t clients = 1;
  at::Device device = at::kCPU;
  double weight_decay = 0;
  /// Biases and normalisation weights do not decay, as Hugging Face's trainer has it. Otherwise everything does.
  bool decay_matrices_only = true;
};

/// What else a step reads and writes.
struct StepMemory {
  at::Tensor before = {};  ///< [A, P] what the values were, if not what they are; is left as it is
  at::Tensor shadow = {};  ///< [A, P] becomes a bfloat16 copy of the values
  bool last = false;       ///< no step follows: neither the state nor the copy is asked for again
};

/// A gradient method on the flat buffers of a cohort. Each client has a state and a step count of its own; a step is a
/// handful of operations on [A, P], whatever the number of parameters and clients. Clients that have finished are the
/// last rows, so a step is always of the first A.
///
///     auto optimizer = Optimizers::make("adamw", {layout, clients});
///     optimizer->step(params.values(), params.grads(), rates);
class Optimizer {
 public:
  static constexpr std::string_view kKind = "optimizer";

  explicit Optimizer(const OptimizerInput& input);
  virtual ~Optimizer() = default;

  /// values, gradients [A, P], rates: the learning rate of each of the A clients. `scale`: factors [A, 1] of the
  /// gradients (clip_scales), undefined for 1. May change the gradients. Of an elementwise() one they may also be the
  /// first few of the P numbers, [A, p], where all others have had no gradient yet.
  void step(const at::Tensor& values, const at::Tensor& gradients, std::span<const double> rates,
            const at::Tensor& scale = {}, const StepMemory& memory = {});

  /// The same in parts, where that can be: `begin_step` counts it, and then every number is in one part, the `values`
  /// [A, p] and `gradients` from `first` on of each client. In parts gradients may be bfloat16.
  virtual bool in_parts(const at::Tensor& /*values*/) const { return false; }
  void begin_step(std::span<const double> rates);
  void step_part(std::int64_t first, const at::Tensor& values, const at::Tensor& gradients, const StepMemory& memory);

  /// Whether each number is changed by its own gradient alone, and one whose gradient is always 0 by nothing but weight
  /// decay.
  virtual bool elementwise() const { return true; }

  /// How far `steps` steps go in units of one gradient: FedNova's |a|_1.
  virtual double reach(double steps) const { return steps; }

  /// The state of one client, to be kept between rounds; and back. An empty one starts anew.
  std::map<std::string, at::Tensor> state(std::int64_t client);
  void restore(std::int64_t client, const std::map<std::string, at::Tensor>& state);
  /// Only the clients at these ascending indices go on, as the first ones.
  void retain(std::span<const std::size_t> clients);

 protected:
  /// Rows [A, P], or [A, p]; `column` is [A, 1].
  struct Rows {
    at::Tensor values, gradients;
    std::span<const double> rates;
    std::int64_t count = 0;
    at::Tensor scale = {};   // of the gradients, where fused() is true; undefined: 1
    at::Tensor before = {};  // what the values were, where fused() is true; else the values themselves
    at::Tensor shadow = {};  // a copy to be made, where fused() is true; undefined: none
    std::int64_t first = 0;  // of a client's numbers; not 0 only where in_parts() is true
    bool last = false;       // the state is not asked for again
  };
  virtual void update(const Rows& rows) = 0;
  /// Before the first part of a step.
  virtual void begin() {}
  /// Whether `update` multiplies by the scale, begins at `before` and makes the copy, which saves passes over memory.
  virtual bool fused(const at::Tensor& /*values*/) const { return false; }

  /// A buffer [C, size] of zeros that belongs to the state, under a name. Made once, in the constructor.
  at::Tensor buffer(const std::string& name, std::int64_t size);
  /// The same without the zeros: `complete` puts them where `update` has not written.
  at::Tensor empty_buffer(const std::string& name, std::int64_t size);
  virtual void complete() {}
  /// One number a client as [A, 1]; a plain scalar tensor when all are equal.
  at::Tensor column(std::span<const double> numbers) const;
  /// The steps each of the first `count` clients has made, this one included.
  std::span<const double> steps(std::int64_t count) const {
    return std::span(steps_).first(static_cast<std::size_t>(count));
  }
  /// values *= 1 - rate * weight_decay, where decay applies.
  void decay_values(const Rows& rows) const;
  /// gradients += weight_decay * values, where decay applies.
  void decay_gradients(const Rows& rows) const;

  const OptimizerInput& input() const { return input_; }
  /// [P]: 1 where a value decays, 0 where not; undefined when all do.
  const at::Tensor& decay_mask() const { return decay_; }

 private:
  OptimizerInput input_;
  at::Tensor decay_;  // [P] of 0 and 1, or undefined: everything or nothing decays
  std::map<std::string, at::Tensor> buffers_;
  std::vector<double> steps_, rates_;  // of each client; the rates of the step that is made
};

using Optimizers = Registry<Optimizer, const OptimizerInput&>;

/// The factor of each client's gradient, a row, that makes its L2 norm at most `norm`: [A, 1].
at::Tensor clip_scales(const at::Tensor& gradients, double norm);

}  // namespace chorus::inline optim
