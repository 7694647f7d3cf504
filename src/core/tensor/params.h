#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor/bfloat16_shadow.h"
#include "core/tensor/gradient_writes.h"
#include "core/tensor/joined_views.h"
#include "core/tensor/layout.h"

namespace chorus::inline tensor {

/// The memory of a Layout for a cohort of C clients: one flat buffer `values` [C, P] of trainable elements, `grads` [C,
/// P], and one vector `frozen` [F] that all clients share. An optimizer step, an average, a clip or a checkpoint is one
/// operation on one of these. Autograd sees leaf views into them: `params[id]` is [C, shape...] for a trainable
/// parameter and [shape...] for a frozen one.
///
///     Params params(model.layout(), {.clients = 3, .gradients = true});
///     params.writes().zero();
///     loss.backward();                                  // accumulates into params.grads()
///     params.values().sub_(params.grads(), lr);         // one SGD step of the whole cohort
///
/// Copying a Params copies handles, not elements. Not thread-safe while a backward pass runs.
class Params {
 public:
  struct Options {
    std::int64_t clients = 1;
    bool gradients = false;
    at::Device device = at::kCPU;
  };

  Params(const Layout& layout, const Options& options);
  /// Cohorts that share the frozen vector, layout and device of `base`. Each client's values are a copy of base's
  /// client 0, with zero gradients;
  static Params copies_of(const Params& base, std::int64_t clients, bool gradients);
  /// or a copy of `start`, [P] for all or [C, P], with uninitialized gradients;
  static Params copies_of_start(const Params& base, std::int64_t clients, bool gradients, const at::Tensor& start);
  /// or `start` itself, read-only, with uninitialized gradients;
  static Params views_of_start(const Params& base, std::int64_t clients, const at::Tensor& start, bool gradients);
  /// or uninitialized, like the gradients; with another layout that has the same frozen parameters.
  static Params unset_cohort(std::shared_ptr<const Layout> layout, std::int64_t clients, const Params& base);
  /// C = 1, zero values, on the frozen vector of another layout with the same frozen parameters.
  static Params zeros_over_frozen(const Layout& layout, const at::Tensor& frozen);

  /// The same layout, gradients, shadow copy and frozen vector; the values are in new, uninitialized memory.
  Params with_own_values() const;
  /// The same, plus a bfloat16 shadow copy of every parameter, for matmuls in mixed precision.
  Params with_shadow() const;
  /// The same, but the shadow copy of trainable parameters is uninitialized.
  Params with_unset_shadow() const;

  std::int64_t clients() const { return values_.size(0); }
  const Layout& layout() const { return *layout_; }
  std::shared_ptr<const Layout> shared_layout() const { return layout_; }
  at::Device device() const { return values_.device(); }

  const at::Tensor& values() const { return values_; }
  /// [C, P]; undefined without gradients.
  const at::Tensor& grads() const { return grads_; }
  const at::Tensor& frozen() const { return frozen_; }

  const at::Tensor& operator[](ParamId id) const { return leaves_[static_cast<std::size_t>(id.index)]; }
  bool trainable(ParamId id) const { return (*layout_)[id].trainable; }

  /// Joined parameters as one view, by the first of them (JoinedViews); undefined if there is none.
  const at::Tensor& joined(ParamId first) const { return joined_[first]; }

  /// What a backward pass has written; null without gradients. `writes` requires gradients.
  const c10::intrusive_ptr<GradientWrites>& shared_writes() const { return writes_; }
  GradientWrites& writes() const { return *writes_; }

  /// Empty without a shadow copy.
  const Bfloat16Shadow& shadow() const { return shadow_; }

  /// One client: a Params with C = 1 on the same memory.
  Params client(std::int64_t index) const;
  /// The first `count` clients, on the same memory.
  Params first(std::int64_t count) const;
  /// One client's tensor, [shape...], on the same memory, without autograd.
  at::Tensor tensor(ParamId id, std::int64_t client = 0) const;
  /// One client's gradient, [shape...]; the parameter must be trainable.
  at::Tensor gradient(ParamId id, std::int64_t client = 0) const;

  /// Fills every parameter by its Init, the same for all clients, from streams keyed by (seed, name).
  void initialise(std::uint64_t seed);
  void initialise(ParamId id, std::uint64_t seed);

 private:
  // Views of frozen and of joined parameters, by index; shared by all Params with the same layout and vector.
  using FrozenViews = FrozenShadow::Views;
  static std::shared_ptr<const FrozenViews> frozen_views(const Layout& layout, const at::Tensor& frozen);

  Params(std::shared_ptr<const Layout> layout, at::Tensor values, at::Tensor grads, at::Tensor frozen,
         std::shared_ptr<FrozenShadow> frozen_shadow, std::shared_ptr<const FrozenViews> frozen_views);
  void make_leaves();
  Params rows(std::int64_t begin, std::int64_t count) const;

  std::shared_ptr<const Layout> layout_;
  at::Tensor values_;
  at::Tensor grads_;
  at::Tensor frozen_;
  std::vector<at::Tensor> leaves_;
  JoinedViews joined_;
  c10::intrusive_ptr<GradientWrites> writes_;
  Bfloat16Shadow shadow_;
  std::shared_ptr<FrozenShadow> frozen_shadow_;
  std::shared_ptr<const FrozenViews> frozen_views_;
};

}  // namespace chorus::inline tensor
