#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/tensor/layout.h"

namespace chorus {

/// The numbers behind a Layout for a cohort of C clients: one flat buffer `values` [C, P] of what trains, its twin
/// `grads` [C, P], and one vector `frozen` [F] that all clients share. An optimiser step, an average, a clip or a
/// checkpoint is one operation on one of these. What autograd sees are leaf views into them: `params[id]` is
/// [C, shape...] for a trainable parameter and [shape...] for a frozen one.
///
///     Params params(model.layout(), {.clients = 3, .gradients = true});
///     params.zero_grads();
///     loss.backward();                                  // accumulates into params.grads()
///     params.values().sub_(params.grads(), lr);         // one SGD step of the whole cohort
///
/// Copying a Params copies handles, not numbers. Not thread-safe while a backward pass runs.
class Params {
 public:
  struct Options {
    std::int64_t clients = 1;
    bool gradients = false;
    at::Device device = at::kCPU;
  };

  Params(const Layout& layout, const Options& options);
  /// A cohort that shares the frozen vector of `base` and has values of its own, each client's a copy of base's
  /// client 0. Same layout, same device.
  static Params cohort_of(const Params& base, std::int64_t clients, bool gradients);
  /// The same with values that begin at `start`, [P] for all or [C, P]. Here the gradients are not zeroed yet.
  static Params cohort_from(const Params& base, std::int64_t clients, bool gradients, const at::Tensor& start);

  /// The same whose values are `start` itself, to be read and not written, [P] for all or [C, P].
  static Params cohort_at(const Params& base, std::int64_t clients, const at::Tensor& start, bool gradients = true);
  /// The same layout, gradients and frozen vector with values in another memory, not set yet.
  Params with_own_values() const;

  /// A cohort whose values and gradients are not set yet, of another layout with the frozen parameters of `base`.
  static Params on(std::shared_ptr<const Layout> layout, std::int64_t clients, const Params& base);
  /// C = 1, values of zero, on a frozen vector that another layout with the same frozen parameters has.
  static Params over(const Layout& layout, const at::Tensor& frozen);

  std::int64_t clients() const { return values_.size(0); }
  const Layout& layout() const { return *layout_; }
  std::shared_ptr<const Layout> shared_layout() const { return layout_; }
  at::Device device() const { return values_.device(); }

  const at::Tensor& values() const { return values_; }
  /// [C, P]; undefined when made without gradients.
  const at::Tensor& grads() const { return grads_; }
  const at::Tensor& frozen() const { return frozen_; }

  const at::Tensor& operator[](ParamId id) const { return leaves_[static_cast<std::size_t>(id.index)]; }
  bool trainable(ParamId id) const { return (*layout_)[id].trainable; }

  /// Parameters that Layout::join tells of as one, [C, count * rows, ...] or [count * rows, ...], by the first of them;
  /// undefined where they do not lie side by side or do not train alike.
  const at::Tensor& joined(ParamId first) const;
  const at::Tensor& half_joined(ParamId first) const;

  void zero_grads();
  /// The same before a backward pass, after which end_grads is called: the weights of products (and heads) are not
  /// filled with zeros, for the first product to add to them writes them (`written`); what none wrote is filled at the
  /// end. Nor is what lies beyond the first `used` numbers of a client, which nobody adds to.
  /// A `taker` gets the gradients of products' weights as soon as they are there, those of each client's numbers from
  /// `offset` on, [C, ...], instead of grads(), and may change these values at once: nothing reads them any more. They
  /// are bfloat16 where a GPU's products are. A weight that several products have is left to grads().
  using Taker = std::function<void(std::int64_t offset, const at::Tensor& gradient)>;
  void begin_grads(std::int64_t used, Taker taker = {});
  void begin_grads() { begin_grads(grads_.size(1)); }
  void end_grads();

  /// What is known of the gradients of products' weights. Shared with the functions of a backward pass.
  struct Written : c10::intrusive_ptr_target {
    std::vector<std::uint8_t> parameters;  ///< not 0: holds something, or was taken
    std::vector<std::uint8_t> uses;        ///< products of this pass
    Taker taker;
  };
  const c10::intrusive_ptr<Written>& written() const { return written_; }

  /// The same with a bfloat16 copy of every parameter beside it, for products (mixed precision). Whoever changes the
  /// values brings halves() up to date.
  Params with_halves() const;
  /// The same, not set yet.
  Params with_unset_halves() const;
  /// [C, P]; undefined when made without.
  const at::Tensor& halves() const { return halves_; }
  /// As params[id], without autograd; undefined when made without halves.
  const at::Tensor& half(ParamId id) const;

  /// One client alone: a Params with C = 1 on the same memory.
  Params client(std::int64_t index) const;
  /// The first `count` clients, on the same memory.
  Params first(std::int64_t count) const;
  /// The tensor of one client, [shape...], on the same memory, without autograd.
  at::Tensor tensor(ParamId id, std::int64_t client = 0) const;
  /// The gradient of one client, [shape...]; the parameter must be trainable.
  at::Tensor gradient(ParamId id, std::int64_t client = 0) const;

  /// Fills every parameter by its Init, the same for all clients, from streams keyed by (seed, name).
  void initialise(std::uint64_t seed);
  void initialise(ParamId id, std::uint64_t seed);

 private:
  // Views of frozen parameters, by index, and of joined ones; shared by all with the same layout and vector.
  struct FrozenLeaves {
    std::vector<at::Tensor> single;
    std::unordered_map<int, at::Tensor> joined;
  };
  // The bfloat16 copy of a frozen vector, made when first asked for and shared by all who share the vector.
  struct FrozenHalf {
    std::mutex mutex;
    at::Tensor numbers;
    std::uint32_t version = 0;  ///< of the vector it was copied from
    std::shared_ptr<const FrozenLeaves> leaves;
    std::shared_ptr<const Layout> layout;  ///< of the leaves
  };
  static std::shared_ptr<const FrozenLeaves> frozen_leaves(const Layout& layout, const at::Tensor& frozen);

  Params(std::shared_ptr<const Layout> layout, at::Tensor values, at::Tensor grads, at::Tensor frozen,
         std::shared_ptr<FrozenHalf> frozen_half, std::shared_ptr<const FrozenLeaves> frozen_leaves);
  void make_leaves();
  void take_halves(const at::Tensor& halves);
  Params rows(std::int64_t begin, std::int64_t count) const;

  std::shared_ptr<const Layout> layout_;
  at::Tensor values_;
  at::Tensor grads_;
  at::Tensor frozen_;
  std::vector<at::Tensor> leaves_;
  c10::intrusive_ptr<Written> written_;
  std::shared_ptr<FrozenHalf> frozen_half_;
  std::shared_ptr<const FrozenLeaves> frozen_leaves_, half_frozen_leaves_;
  at::Tensor halves_;
  std::vector<at::Tensor> half_leaves_;
  std::unordered_map<int, at::Tensor> joined_, half_joined_;
};

}  // namespace chorus
