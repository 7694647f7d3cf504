#pragma once

#include <vector>

#include "algorithm/federated/collect.h"
#include "core/config/config_visitor.h"

namespace chorus::inline federated {

struct FedLoraConfig {
  enum class Merge { kZeroPadding, kProduct };

  std::vector<std::int64_t> ranks = {};  ///< assigned to the clients by a hash; empty: all have tuning.rank
  Merge merge = Merge::kZeroPadding;

  void describe(ConfigVisitor& visitor);
};

/// LoRA among clients that can afford different ranks r_k <= r ("Federated Learning for Privacy-Preserving NLP",
/// section 3.2). A client of rank r_k receives, trains and sends the first r_k rows of every A and columns of every B.
///
///     zero_padding   A = sum_k p_k pad(A_k),  B = sum_k p_k pad(B_k)               (HetLoRA, Cho et al. 2024)
///     product        D = sum_k p_k B_k A_k = U S V^T,  B = U_r sqrt(S_r),  A = sqrt(S_r) V_r^T
///                                                                                  (FlexLoRA, Bai et al. 2024)
///
/// Other parameters (a head) are averaged as in FedAvg. With equal ranks, zero padding is FedAvg.
class FedLora : public Algorithm {
 public:
  explicit FedLora(const FedLoraConfig& config) : config_(config) {}

  RoundResult round(const RoundInput& input) override;

  /// A client's rank, a function of the run's seed and its id.
  std::int64_t rank_of(std::uint64_t seed, ClientId client, std::int64_t most) const;

 private:
  FedLoraConfig config_;
};

}  // namespace chorus::inline federated
