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
#include "core/ports/kept.h"
#include "core/ports/learner.h"
#include "core/ports/message.h"
#include "core/tensor/layout.h"

namespace chorus::inline ports {

/// What a client's procedure keeps between rounds: SCAFFOLD's control variates, an optimizer, a personal model.
using ClientState = std::map<std::string, at::Tensor>;

/// Elements [begin, end) of the flat vector of what trains (Layout: a parameter has `count` of them from `offset` on).
struct FlatRange {
  std::int64_t begin = 0, end = 0;
};

/// How a procedure wants its clients to train, beyond the trainer's own configuration.
struct TrainWish {
  /// mu of a proximal term in the loss, mu/2 |w - start|^2.
  double proximal = 0;
  /// Called after every backward pass, before clipping, with the values and the gradients [A, P] of those clients that
  /// still train: the first A of Workbench::clients(). Changes the gradients in place (a control variate).
  std::function<void(const at::Tensor& values, const at::Tensor& gradients)> adjust = {};
  /// The optimizer continues from the client's last round; its state is part of the client's state.
  bool keep_optimizer = false;
  /// The result is the update: trained values minus the start.
  bool updates = false;
  /// Elements that must not change by a single bit: local parameters (FedPer, FedRep). Their gradients are 0 before
  /// clipping.
  std::vector<FlatRange> frozen = {};
};

/// How a Learner trains.
struct LearnerWish {
  TrainWish train = {};  ///< without keep_optimizer and updates, which a learner has no use for
  /// Optimizer steps the learning-rate schedule spans. Default: those that each client would make in train().
  std::optional<std::int64_t> steps = {};
};

/// The result of training; one entry per client.
struct TrainResult {
  at::Tensor values;                  ///< [C, P]; the updates where TrainWish::updates is set
  std::vector<bool> finite;           ///< of updates: whether all values of a client are finite
  std::vector<double> examples;       ///< training examples of the client
  std::vector<double> batches;        ///< batches read
  std::vector<double> steps;          ///< optimizer steps
  std::vector<double> rate_sum;       ///< sum of the learning rates of those steps
  std::vector<double> normalizer;     ///< |a|_1 of FedNova: how far such steps go, in units of one gradient
  std::vector<double> loss;           ///< mean over the batches
  std::vector<std::string> failures;  ///< empty strings, or what went wrong (a loss that is not a number)
  double seconds = 0;                 ///< spent in the steps, all clients together; the rest is overhead
};

/// The loss of a client's data under given values, and its gradient.
struct GradientResult {
  at::Tensor gradients;  ///< [C, P], undefined if not requested; mean over all answers of the client
  std::vector<double> examples;
  std::vector<double> loss;
  std::vector<std::string> failures;
};

/// The clients that a procedure runs for as one batch, with access to what never leaves them: data, state and compute.
/// Every tensor [C, ...] has one row per client, in the order of `clients()`: clients with the most steps come first. A
/// real device has C = 1.
///
///     TrainResult result = bench.train(global);            // all clients start from `global` [P]
class Workbench {
 public:
  virtual ~Workbench() = default;

  virtual std::span<const ClientId> clients() const = 0;
  virtual std::int64_t parameters() const = 0;  ///< P, what trains
  /// Names, shapes and offsets of the parameters; a trainable one is at its offset in vectors [P].
  virtual const Layout& layout() const = 0;
  virtual double examples(std::size_t i) const = 0;  ///< training examples of client i
  /// What trains, as the run begins, [P]: every client knows it without being told.
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
  /// Rows of the public set, which everybody knows; 0 without one.
  virtual std::size_t public_rows() const = 0;
  /// Where the answers for each row of the public set begin, and how many there are in all: public_rows() + 1 numbers.
  /// Empty: one answer per row.
  virtual std::span<const std::int64_t> public_offsets() const { return {}; }
  /// As Learner::predict, for given values, [P] for all or [C, P].
  virtual at::Tensor predict(const at::Tensor& values, std::span<const std::uint32_t> rows) = 0;

  /// Over all training examples, without dropout.
  virtual GradientResult gradient(const at::Tensor& start, bool want_gradients) = 0;

  /// Which examples are scored: the client's own test examples, or those everybody shares.
  enum class TestOn { kOwn, kShared };
  /// The totals of the task's metric for each client (read by the task's side of the server); clients without test
  /// examples give an empty message.
  virtual std::vector<Message> evaluate(const at::Tensor& values, TestOn on) = 0;

 protected:
  virtual void retain_clients(std::span<const std::size_t> clients) = 0;

 private:
  std::map<std::string, std::unique_ptr<Kept>> kept_;
};

}  // namespace chorus::inline ports
