#pragma once

#include <map>
#include <vector>

#include "algorithm/personal/clusters.h"

namespace chorus::inline personal {

struct ClusteredConfig {
  std::int64_t clusters = 2;   ///< K
  std::int64_t warm_up = 5;    ///< rounds of FedAvg whose updates are compared
  std::int64_t sketch = 1024;  ///< elements of the sketch of an update

  void describe(ConfigVisitor& visitor);
};

/// Clustering by the similarity of updates (Sattler et al. 2020; Briggs et al. 2020). During `warm_up` rounds of FedAvg
/// the server records the direction of every client's latest update, as a count sketch of `sketch` elements (random
/// signs and buckets, which preserve cosines; exact if the model is smaller). Then it merges clients bottom-up by the
/// mean cosine between their groups (average linkage) until K groups remain. Each group continues from the global model
/// with FedAvg among its members. A client that was not seen in the warm-up chooses the model with the lowest loss when
/// it is first asked, and stays there.
///
/// A client's own model is its cluster's.
class Clustered : public Algorithm {
 public:
  explicit Clustered(const ClusteredConfig& config) : config_(config) {}
  RoundResult round(const RoundInput& input) override;
  Request ask_own_models(const at::Tensor& model, std::uint64_t round,
                         std::span<const ClientId> clients) const override;
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

  /// The cluster of every client that has one.
  const std::map<ClientId, std::int64_t>& members() const { return members_; }

 private:
  RoundResult warm_up(const RoundInput& input);

  ClusteredConfig config_;
  std::map<ClientId, at::Tensor> sketches_;  // of the warm-up, on the CPU
  std::map<ClientId, std::int64_t> members_;
  ClusterModels clusters_;
};

/// A count sketch of a vector, normalized; the vector itself if it is not longer than the sketch.
at::Tensor sketch_of(const at::Tensor& vector, std::int64_t size, std::uint64_t seed);

/// Average linkage by cosine: the group of each row of unit vectors [n, d], numbered by their first rows. At most
/// `groups` remain.
std::vector<std::int64_t> join_by_cosine(const at::Tensor& rows, std::int64_t groups);

}  // namespace chorus::inline personal
