#pragma once

#include <map>
#include <string>
#include <vector>

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

/// K models [K, P] of one layout, each the mean of the clients that train it: what clustered methods share. A client is
/// told its model, or gets all of them and takes the one with the lowest loss on its training examples
/// (procedure "clusters/train"); it answers with the update and the number "cluster".
class ClusterModels {
 public:
  /// Asks the cohort; `own` has one message per client of `asking_order`: {"cluster": c} with its "model", or
  /// {} for a client that chooses. Moves each model by the mean update of its clients, and `input.model` to the mean of
  /// the models by how much trained them this time.
  struct Choice {
    ClientId client = 0;
    std::int64_t cluster = 0;
  };
  struct Outcome {
    RoundResult result;
    std::vector<Choice> choices;  ///< of the clients whose updates were used, by rising id
  };
  Outcome train(const RoundInput& input, Request request);

  /// A request that scores each client's model; clients of `known` are told theirs, others choose.
  Request ask(std::uint64_t round, std::span<const ClientId> clients,
              const std::map<ClientId, std::int64_t>& known) const;

  /// Of client i of the asking order: the message that tells it its cluster.
  Message told(std::int64_t cluster) const;

  bool defined() const { return models_.defined(); }
  std::int64_t count() const { return models_.size(0); }
  const at::Tensor& models() const { return models_; }  ///< [K, P]
  /// All equal to `model`.
  void begin(const at::Tensor& model, std::int64_t clusters);
  /// DataError unless it is [K, P].
  void restore(const at::Tensor& models);

 private:
  at::Tensor models_;
  mutable std::map<std::int64_t, at::Tensor> copies_;  // that requests hold, until the models change
};

}  // namespace chorus::inline personal
