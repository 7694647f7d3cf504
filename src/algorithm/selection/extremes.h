#pragma once

#include "algorithm/selection/selector.h"

namespace chorus {

struct ExtremesConfig {
  double share = 0.2;  ///< of the clients with data, in (0, 1]; paper 002: 20 %

  void describe(ConfigVisitor& v);
};

/// Uniform among the share of clients with most data ("heavy") or least ("light"), paper 002 section 3. Of n clients
/// with data ceil(share n) belong to it. Clients of equal size at the border: the one with the smaller number belongs
/// to it first, for both. Who is heavy does not depend on who can be reached: those who cannot are left out afterwards.
class ExtremesSelector : public Selector {
 public:
  ExtremesSelector(ExtremesConfig config, bool heavy) : config_(config), heavy_(heavy) {}
  std::vector<ClientId> select(const SelectionContext& context) const override;
  std::size_t most(const SelectionContext& context) const override;

  /// The heavy or light clients that can be reached, ascending.
  std::vector<ClientId> members(const SelectionContext& context) const;

 private:
  ExtremesConfig config_;
  bool heavy_;
};

}  // namespace chorus
