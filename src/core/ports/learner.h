#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/ports/kept.h"

namespace chorus::inline ports {

/// Targets for some rows of the public set; without any, the rows' own labels. n is the number of predictions, as in
/// Learner::predict; a leading dimension C gives each client its own targets. Each kind is a loss, the mean over the
/// predictions. Losses of several kinds are added, but labels and probabilities exclude each other. The loss of a step
/// is
///
///     own * (loss of the task on the rows' own labels) + (1 - own) * (losses against the targets)
struct Targets {
  at::Tensor labels = {};         ///< int64 [n] or [C, n]; -100: no target
  at::Tensor probabilities = {};  ///< float [n, K] or [C, n, K]; a row of zeros: no target
  double temperature = 1;         ///< T of the soft loss, T^2 KL(p || softmax(logits / T)) (Hinton et al. 2015)
  at::Tensor votes = {};          ///< float, likewise: - sum_c votes_c log softmax(logits)_c; any sign and sum
  at::Tensor rewards = {};        ///< float, likewise: - sum_c rewards_c softmax(logits)_c
  at::Tensor scores = {};         ///< float, likewise: (1/K) sum_c (logits_c - scores_c)^2
  double own = 0;                 ///< 0 to 1; above 0 only where Workbench::public_texts_teach
};

/// The result of some optimizer steps; one entry per client.
struct LearnResult {
  std::vector<double> loss;           ///< mean over the batches
  std::vector<double> steps;          ///< optimizer steps made
  std::vector<double> rate_sum;       ///< sum of their learning rates
  std::vector<std::string> failures;  ///< empty, or what went wrong
  double seconds = 0;                 ///< all clients together
};

/// How a loss is measured.
struct ProbeWish {
  bool dropout = false;    ///< with dropout, as in training
  bool gradients = false;  ///< compute the gradient, too
};

struct ProbeResult {
  std::vector<double> loss;   ///< per client
  at::Tensor gradients = {};  ///< [C, P]; undefined if not wanted
};

/// Training that continues over several calls: C clients with values [C, P], an optimizer, a position in the
/// learning-rate schedule and one in each client's data. Creating it copies the values once; later calls cost only
/// their own passes and optimizer steps. Clients are in the order of Workbench::clients().
///
///     std::unique_ptr<Learner> learner = bench.learner(global, {});
///     learner->train(1);                                           // one optimizer step on the clients' own data
///     at::Tensor logits = learner->predict(rows);                  // [C, n, K] on rows of the public set
///     learner->fit(rows, {.probabilities = mean, .temperature = 2});
///
/// Not thread-safe.
class Learner : public Kept {
 public:
  /// The next `steps` optimizer steps of every client on its own data, epoch after epoch. A client without rows fails
  /// and keeps its values.
  virtual LearnResult train(std::int64_t steps) = 0;

  /// One optimizer step of every client on these rows of the public set. ConfigError if the task has no such targets.
  /// `meanwhile` is called while a GPU makes the step; it may predict, which waits for the step there.
  virtual LearnResult fit(std::span<const std::uint32_t> rows, const Targets& targets,
                          const std::function<void()>& meanwhile) = 0;
  LearnResult fit(std::span<const std::uint32_t> rows, const Targets& targets) { return fit(rows, targets, {}); }

  /// Logits [C, n, K], float32 in any precision, for these rows of the public set, without dropout. With one prediction
  /// per sequence, n is the number of rows. For tagging, it is the number of words whose tag the model predicts, row
  /// after row; for questions, there are two per row, start and end, over the words of the text. So it does not depend
  /// on the tokenizer. Otherwise it is the number of tokens that the model reads, row after row.
  virtual at::Tensor predict(std::span<const std::uint32_t> rows) = 0;

  /// The same with dropout, as the published code of FedID predicts.
  virtual at::Tensor predict_with_dropout(std::span<const std::uint32_t> rows) = 0;

  /// Reads these rows for the next call of `fit`, for a moment in which a GPU has other work.
  virtual void read_ahead(std::span<const std::uint32_t>) {}

  /// The loss of batch `number` of each client's own data (the batches that `train` reads, whatever it has read so
  /// far), without a step. Every client needs data.
  virtual ProbeResult probe(std::int64_t number, const ProbeWish& wish) = 0;

  /// H v [C, P]: each client's Hessian of that loss at its values, with dropout as in training, times its row of
  /// `direction`; 0 for a client without rows. Exact: the gradient is differentiated again. ConfigError where that is
  /// not possible.
  virtual at::Tensor curvature(std::int64_t number, const at::Tensor& direction) = 0;

  /// Resets the optimizer and starts a learning-rate schedule of `steps` steps.
  virtual void renew(std::int64_t steps) = 0;

  /// [C, P]: the learner's own memory, read-only; it changes with the next step.
  virtual at::Tensor values() const = 0;
  /// [P] for all clients or [C, P]. Keeps the optimizer's state and all positions.
  virtual void set_values(const at::Tensor& values) = 0;
};

}  // namespace chorus::inline ports
