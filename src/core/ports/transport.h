#pragma once

#include <string_view>

#include "core/config/registry.h"
#include "core/ports/federation.h"

namespace chorus {

/// A federation that is reached through a transport: its messages travel as bytes. Made from the federation that
/// answers at the far end, which must outlive it.
class TransportedFederation : public Federation {
 public:
  static constexpr std::string_view kKind = "transport";
};

using Transports = Registry<TransportedFederation, Federation&>;

}  // namespace chorus
