#pragma once

#include "algorithm/personal/local_parts.h"

namespace chorus::inline personal {

struct FedRepConfig : PartConfig {
  FedRepConfig() : PartConfig{{"head"}, {}} {}
  std::int64_t head_passes = 1;  ///< rounds of local training of the private part before one of the shared part

  void describe(ConfigVisitor& visitor);
};

/// FedRep (Collins et al. 2021, algorithm 1): like FedPer, but a client first trains its private head with the shared
/// representation frozen, for `head_passes` rounds of local training, and then the representation with the head frozen:
///     h_k <- argmin_h F_k(s_t, h) (some steps),   s_k <- s_t - eta grad_s F_k(s, h_k),   s_{t+1} = sum_k p_k s_k
/// Any other part can be private instead of the head (private_part.h).
class FedRep : public LocalParts {
 public:
  explicit FedRep(const FedRepConfig& config) : LocalParts(config), head_passes_(config.head_passes) {}
  RoundResult round(const RoundInput& input) override { return round_of(input, "fedrep/train"); }

 protected:
  void describe_to(Request& request) const override;

 private:
  std::int64_t head_passes_;
};

}  // namespace chorus::inline personal
