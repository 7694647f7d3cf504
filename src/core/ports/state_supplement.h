#pragma once

#include <string>
#include <string_view>

#include "core/config/registry.h"
#include "core/ports/fleet.h"
#include "core/ports/workbench.h"

namespace chorus::inline ports {

/// Tensors that the process of a fleet's client adds to the client's state before every request, and that are never
/// stored with it, such as keys that belong to its certificate.
///
///     for (const std::string& name : StateSupplements::names()) StateSupplements::make(name)->tensors({end, job});
struct SupplementInput {
  FleetEnd end;     ///< who this client is
  std::string job;  ///< digest of what the server told it to do: configuration, facts and files
};

class StateSupplement {
 public:
  static constexpr std::string_view kKind = "state_supplement";
  virtual ~StateSupplement() = default;
  /// DataError when the files of this end cannot be used.
  virtual ClientState tensors(const SupplementInput& input) const = 0;
};

using StateSupplements = Registry<StateSupplement>;

}  // namespace chorus::inline ports
