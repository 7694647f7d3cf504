#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "application/models/model.h"
#include "application/optim/optimizer.h"
#include "application/trainer/gpu_values.h"
#include "application/trainer/step_recorder.h"
#include "core/tensor/params.h"

namespace chorus::inline trainer {

class ClientBatches;

/// The values and gradients of a cohort while it trains. This class holds one copy of the start per client; the
/// functions below make stores that save memory or time.
class ValueStore {
 public:
  /// `clients` clients that share the frozen vector of `base`, starting from `start`, [P] for all or [C, P] on base's
  /// device.
  struct Input {
    const Params& base;
    std::int64_t clients = 1;
    at::Tensor start;
    bool bfloat16 = false;  ///< with a bfloat16 shadow copy of the values
  };

  explicit ValueStore(const Input& input);
  ValueStore(const ValueStore&) = delete;
  ValueStore& operator=(const ValueStore&) = delete;
  virtual ~ValueStore() = default;

  const Params& params() const { return params_; }
  /// The first `clients` alone, on the same memory.
  Params& active(std::int64_t clients);

  /// How many of each client's first elements can have a gradient by the end of batch `number`.
  virtual std::int64_t used_until(std::int64_t /*number*/) const { return params_.values().size(1); }
  /// Adapts a batch of the first clients to the stored parameters.
  virtual void adapt(Batch& /*batch*/) const {}
  /// Whether the values are in the store's own memory yet.
  virtual bool owned() const { return true; }
  /// Whether passes are recorded, and so return before the GPU has finished them.
  virtual bool records() const { return false; }

  /// One forward and backward pass of the first `clients`; returns their losses.
  using Pass = std::function<at::Tensor(Params& params, PassInput& input)>;
  virtual at::Tensor run(std::int64_t clients, PassInput& input, const Pass& pass);

  /// The optimizer step of the first `clients` on each client's first `used` elements.
  struct Step {
    std::int64_t clients = 1, used = 0;
    std::span<const double> rates;
    at::Tensor scale = {};  ///< of the gradients (clip_scales)
    bool last = false;      ///< no step follows
    bool once = false;      ///< a new optimizer follows
  };
  virtual void step(Optimizer& optimizer, const Step& step);

  /// The start in the layout of the stored parameters, [1 or C, P'].
  virtual at::Tensor start() const;
  /// Keeps only the clients at these ascending indices.
  void retain(std::span<const std::size_t> clients);

  /// The values of all parameters, [C, P], without a copy if possible; or their difference from the start. The store
  /// must not be used afterwards.
  virtual at::Tensor take_values() { return params_.values(); }
  virtual Changes take_changes();

 protected:
  ValueStore(Params params, at::Tensor start) : start_(std::move(start)), params_(std::move(params)) {}

  /// Call after replacing params_.
  void forget_active() { active_.reset(); }

  at::Tensor start_;  // as given
  Params params_;

 private:
  std::optional<Params> active_;
};

/// Reads the start itself until the first step, which saves a copy. All clients must make the first step.
std::unique_ptr<ValueStore> borrowed_start_store(const ValueStore::Input& input);

/// Holds only the rows of the word table that the clients' batches use (used_words.h); null if the model does not allow
/// it.
std::unique_ptr<ValueStore> used_words_store(const ValueStore::Input& input, const Model& model,
                                             std::span<ClientBatches> batches);

/// Uses the fixed memory of recorded passes (step_recorder.h).
std::unique_ptr<ValueStore> recorded_store(const ValueStore::Input& input, StepRecorders& recorders);

}  // namespace chorus::inline trainer
