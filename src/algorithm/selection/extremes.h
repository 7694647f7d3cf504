#pragma once

#include "algorithm/selection/selector.h"

namespace chorus::inline selection {

struct ExtremesConfig {
  double share = 0.2;  ///< share of the clients with data, in (0, 1]; Dupuy et al. 2022: 20 %

  void describe(ConfigVisitor& v);
};

/// Uniform among the share of clients with most ("heavy") or least ("light") data (Dupuy et al. 2022, section 3). Of n
/// clients with data ceil(share n) belong to it; ties go to the smaller id. Heavy and light do not depend on
/// reachability: unreachable members are removed afterwards.
class ExtremesSelector : public Selector {
 public:
  ExtremesSelector(ExtremesConfig config, bool heavy) : config_(config), heavy_(heavy) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;
  std::size_t most(const SelectionContext& context) const override;

  /// The reachable heavy or light clients, ascending.
  std::vector<ClientId> members(const SelectionContext& context) const;

 private:
  ExtremesConfig config_;
  bool heavy_;
};

}  // namespace chorus::inline selection
