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
  /// Biases and normalisation weights do not decay, as in Hugging Face's trainer. If false, everything decays.
  bool decay_matrices_only = true;
};

/// Optional inputs and outputs of a step.
struct StepMemory {
  at::Tensor before = {};  ///< [A, P] values to step from, if not `values`; read-only
  at::Tensor shadow = {};  ///< [A, P] receives the bfloat16 shadow copy of the values
  bool last = false;       ///< no step follows: state and shadow copy are not needed any more
  bool once = false;       ///< `forget` follows: the state is not needed any more
};

/// A gradient method on the flat buffers of a cohort. Each client has its own state and step count. A step is a handful
/// of operations on [A, P], whatever the number of parameters and clients. Finished clients are the last rows, so a
/// step always covers the first A.
///
///     auto optimizer = Optimizers::make("adamw", {layout, clients});
///     optimizer->step(params.values(), params.grads(), rates);
class Optimizer {
 public:
  static constexpr std::string_view kKind = "optimizer";

  explicit Optimizer(const OptimizerInput& input);
  virtual ~Optimizer() = default;

  /// values, gradients [A, P]; rates: one learning rate per client. `scale`: factors [A, 1] of the gradients
  /// (clip_scales); undefined: 1. May change the gradients. If elementwise(), values and gradients may also be the
  /// first p of P elements, [A, p], if all others have had no gradient yet.
  void step(const at::Tensor& values, const at::Tensor& gradients, std::span<const double> rates,
            const at::Tensor& scale = {}, const StepMemory& memory = {});

  /// The same in parts, if supported: `begin_step` counts the step; then each element is updated by exactly one
  /// `step_part`, with `values` [A, p] and `gradients` of the elements from `first` on. Gradients may be bfloat16.
  virtual bool in_parts(const at::Tensor& /*values*/) const { return false; }
  void begin_step(std::span<const double> rates);
  void step_part(std::int64_t first, const at::Tensor& values, const at::Tensor& gradients, const StepMemory& memory);

  /// Whether each element changes only by its own gradient, and an element whose gradient is always 0 only by weight
  /// decay.
  virtual bool elementwise() const { return true; }

  /// The length of `steps` steps in units of one gradient: FedNova's |a|_1.
  virtual double reach(double steps) const { return steps; }

  /// One client's state, to keep between rounds; and back. An empty state starts anew.
  std::map<std::string, at::Tensor> state(std::int64_t client);
  void restore(std::int64_t client, const std::map<std::string, at::Tensor>& state);
  /// All clients start anew.
  void forget();
  /// Only the clients at these ascending indices remain, as the first ones.
  void retain(std::span<const std::size_t> clients);

 protected:
  /// Rows [A, P], or [A, p]; `column` is [A, 1].
  struct Rows {
    at::Tensor values, gradients;
    std::span<const double> rates;
    std::int64_t count = 0;
    at::Tensor scale = {};   // of the gradients, if fused(); undefined: 1
    at::Tensor before = {};  // values to step from, if fused(); else the values themselves
    at::Tensor shadow = {};  // receives the shadow copy, if fused(); undefined: none
    std::int64_t first = 0;  // index of the first element; nonzero only if in_parts()
    bool last = false;       // no step follows
    bool once = false;       // the state is not needed any more
  };
  virtual void update(const Rows& rows) = 0;
  /// Before the first part of a step.
  virtual void begin() {}
  /// Whether `update` applies the scale, starts from `before` and writes the shadow copy, which saves passes over
  /// memory.
  virtual bool fused(const at::Tensor& /*values*/) const { return false; }

  /// A named buffer [C, size] of zeros that belongs to the state. Call in the constructor.
  at::Tensor buffer(const std::string& name, std::int64_t size);
  /// The same, uninitialized: `complete` zeroes what `update` has not written.
  at::Tensor empty_buffer(const std::string& name, std::int64_t size);
  virtual void complete() {}
  /// All state becomes that of an optimizer without steps.
  virtual void clear();
  /// One value per client as [A, 1]; a scalar tensor if all are equal.
  at::Tensor column(std::span<const double> numbers) const;
  /// Steps of each of the first `count` clients, including this one.
  std::span<const double> steps(std::int64_t count) const {
    return std::span(steps_).first(static_cast<std::size_t>(count));
  }
  /// values *= 1 - rate * weight_decay, where decay applies.
  void decay_values(const Rows& rows) const;
  /// gradients += weight_decay * values, where decay applies.
  void decay_gradients(const Rows& rows) const;

  const OptimizerInput& input() const { return input_; }
  /// [P]: 1 where a value decays, else 0; undefined if all do.
  const at::Tensor& decay_mask() const { return decay_; }

 private:
  OptimizerInput input_;
  at::Tensor decay_;  // [P] of 0 and 1; undefined: everything or nothing decays
  std::map<std::string, at::Tensor> buffers_;
  std::vector<double> steps_, rates_;  // per client; the rates of the current step
};

using Optimizers = Registry<Optimizer, const OptimizerInput&>;

/// Factors [A, 1] that make the L2 norm of each client's gradient at most `norm`.
at::Tensor clip_scales(const at::Tensor& gradients, double norm);

}  // namespace chorus::inline optim
