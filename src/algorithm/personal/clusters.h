#pragma once

#include <map>
#include <string>
#include <vector>

#include "algorithm/federated/collect.h"

namespace chorus::inline personal {

/// K models [K, P] of one layout, each the mean of the clients that train it: shared by the clustered methods. A client
/// receives its model, or all of them and chooses the one with the lowest loss on its training examples (procedure
/// "clusters/train"); it replies with the update and the number "cluster".
class ClusterModels {
 public:
  /// Asks the cohort; `own` has one message per client of `asking_order`: {"cluster": c} with its "model", or {} for a
  /// client that chooses. Moves each model by the mean update of its clients, and `input.model` to the mean of the
  /// models, weighted by the training of this round.
  struct Choice {
    ClientId client = 0;
    std::int64_t cluster = 0;
  };
  struct Outcome {
    RoundResult result;
    std::vector<Choice> choices;  ///< of the clients whose updates were used, ascending by id
  };
  Outcome train(const RoundInput& input, Request request);

  /// A request that scores each client's model; clients of `known` receive theirs, others choose.
  Request ask(std::uint64_t round, std::span<const ClientId> clients,
              const std::map<ClientId, std::int64_t>& known) const;

  /// The message that assigns a client to a cluster.
  Message told(std::int64_t cluster) const;

  bool defined() const { return models_.defined(); }
  std::int64_t count() const { return models_.size(0); }
  const at::Tensor& models() const { return models_; }  ///< [K, P]
  /// All equal to `model`.
  void begin(const at::Tensor& model, std::int64_t clusters);
  /// DataError unless the shape is [K, P].
  void restore(const at::Tensor& models);

 private:
  at::Tensor models_;
  mutable std::map<std::int64_t, at::Tensor> copies_;  // held by requests, until the models change
};

}  // namespace chorus::inline personal
