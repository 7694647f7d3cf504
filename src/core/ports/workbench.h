#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/client_id.h"
#include "core/base/error.h"
#include "core/ports/kept.h"
#include "core/ports/learner.h"
#include "core/ports/message.h"
#include "core/ports/split.h"
#include "core/tensor/layout.h"

namespace chorus::inline ports {

/// What a client's procedure keeps between rounds: SCAFFOLD's control variates, an optimizer, a personal model.
using ClientState = std::map<std::string, at::Tensor>;

/// Elements [begin, end) of the flat trainable vector (Layout: a parameter has `count` elements from `offset` on).
struct FlatRange {
  std::int64_t begin = 0, end = 0;
};

/// How a procedure wants its clients to train, beyond the trainer's own configuration.
struct TrainWish {
  /// mu of a proximal term in the loss, mu/2 |w - start|^2.
  double proximal = 0;
  /// Called after every backward pass, before clipping, with the values and gradients [A, P] of the clients that still
  /// train: the first A of Workbench::clients(). Changes the gradients in place (a control variate).
  std::function<void(const at::Tensor& values, const at::Tensor& gradients)> adjust = {};
  /// The optimizer continues from the client's last round; its state is part of the client's state.
  bool keep_optimizer = false;
  /// The result is the update: trained values minus the start.
  bool updates = false;
  /// Elements that must not change by a single bit: local parameters (FedPer, FedRep). Their gradients are 0 before
  /// clipping.
  std::vector<FlatRange> frozen = {};
  /// A model whose predictions on the client's own batches the trained one should keep (learning without forgetting):
  /// adds weight_i T^2 KL(softmax(teacher / T) || softmax(logits / T)), the mean over the labels, to client i's loss.
  struct Teacher {
    at::Tensor values = {};            ///< [C, P]; undefined: none
    std::vector<double> weights = {};  ///< per client
    double temperature = 2;
  };
  Teacher teacher = {};
};

/// How a Learner trains.
struct LearnerWish {
  TrainWish train = {};  ///< without keep_optimizer and updates
  /// Optimizer steps of the learning-rate schedule. Default: those that each client would make in train().
  std::optional<std::int64_t> steps = {};
  double rate = 1;  ///< factor of the trainer's learning rate
};

/// The result of training; one entry per client.
struct TrainResult {
  at::Tensor values;                  ///< [C, P]; with TrainWish::updates, the updates
  std::vector<bool> finite;           ///< of updates: whether all values of a client are finite
  std::vector<double> examples;       ///< training examples of the client
  std::vector<double> batches;        ///< batches read
  std::vector<double> steps;          ///< optimizer steps
  std::vector<double> rate_sum;       ///< sum of the learning rates of those steps
  std::vector<double> normalizer;     ///< FedNova's |a|_1: the length of the steps in units of one gradient
  std::vector<double> loss;           ///< mean over the batches
  std::vector<std::string> failures;  ///< empty, or what went wrong (a loss of NaN)
  double seconds = 0;                 ///< spent in the steps, all clients together; the rest is overhead
};

/// The loss of a client's data at given values, and its gradient.
struct GradientResult {
  at::Tensor gradients;  ///< [C, P], undefined if not requested; mean over all labels of the client
  std::vector<double> examples;
  std::vector<double> loss;
  std::vector<std::string> failures;
};

/// The clients that a procedure runs for as one batch, with access to what never leaves them: data, state and compute.
/// Every tensor [C, ...] has one row per client, in the order of `clients()`: clients with most steps first. A real
/// device has C = 1.
///
///     TrainResult result = bench.train(global);            // all clients start from `global` [P]
class Workbench {
 public:
  virtual ~Workbench() = default;

  virtual std::span<const ClientId> clients() const = 0;
  virtual std::int64_t parameters() const = 0;  ///< P, trainable elements
  /// Names, shapes and offsets of the parameters; a trainable one is at its offset in vectors [P].
  virtual const Layout& layout() const = 0;
  virtual double examples(std::size_t i) const = 0;  ///< training examples of client i
  /// The trainable values at the start of the run, [P]; every client has them.
  virtual at::Tensor beginning() const = 0;
  /// Loaded on first use. A procedure replaces tensors and never writes into them: the stored state changes only when
  /// the reply is accepted.
  virtual ClientState& state(std::size_t i) = 0;
  /// Returns a function that stores the present state of client i, to be called when its reply is accepted. Null if the
  /// state was never loaded. The function may outlive the workbench.
  virtual std::function<void()> state_to_keep(std::size_t i) = 0;

  /// Keeps only the clients at these indices (ascending), with their state and kept objects.
  void retain(std::span<const std::size_t> clients) {
    retain_clients(clients);
    for (auto& entry : kept_) entry.second->retain(clients);
  }
  /// An object that a procedure keeps between the asks of a session, by name; null: none yet. Without a session all are
  /// dropped after each ask.
  Kept* kept(const std::string& name) const {
    const auto found = kept_.find(name);
    return found == kept_.end() ? nullptr : found->second.get();
  }
  void keep(const std::string& name, std::unique_ptr<Kept> what) { kept_[name] = std::move(what); }

  /// Trains from `start`, [P] for all or [C, P].
  virtual TrainResult train(const at::Tensor& start, const TrainWish& wish) = 0;
  TrainResult train(const at::Tensor& start) { return train(start, {}); }

  /// Training that continues over several calls, from `start`, [P] for all or [C, P].
  virtual std::unique_ptr<Learner> learner(const at::Tensor& start, const LearnerWish& wish) = 0;
  /// Rows of the public set, which all parties know; 0 without one.
  virtual std::size_t public_rows() const = 0;
  /// Index of the first prediction for each row of the public set, and their total: public_rows() + 1 elements. Empty:
  /// one prediction per row.
  virtual std::span<const std::int64_t> public_offsets() const { return {}; }
  /// Whether the public texts are their own labels, as for a language model, so that everybody may learn from them
  /// (Targets::own).
  virtual bool public_texts_teach() const { return false; }
  /// Like Learner::predict, for given values, [P] for all or [C, P].
  virtual at::Tensor predict(const at::Tensor& values, std::span<const std::uint32_t> rows) = 0;

  /// Over all training examples, without dropout.
  virtual GradientResult gradient(const at::Tensor& start, bool want_gradients) = 0;

  /// One client's side of split learning, from the values `start` of its part of the network.
  virtual std::unique_ptr<SplitClient> split(std::size_t /*i*/, const SplitCut& /*cut*/, const at::Tensor& /*start*/,
                                             const SplitGuard& /*guard*/) {
    throw InternalError("these clients have no network that could be cut");
  }

  /// Which examples are scored: the client's own test examples, or the shared ones.
  enum class TestOn { kOwn, kShared };
  /// The totals of the task's metric per client (read by the task's server side); clients without test examples give an
  /// empty message.
  virtual std::vector<Message> evaluate(const at::Tensor& values, TestOn on) = 0;

 protected:
  virtual void retain_clients(std::span<const std::size_t> clients) = 0;

 private:
  std::map<std::string, std::unique_ptr<Kept>> kept_;
};

}  // namespace chorus::inline ports
