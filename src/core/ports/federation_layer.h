#pragma once

#include "core/ports/federation.h"

namespace chorus::inline ports {

/// A federation that passes requests on to another one.
class FederationLayer {
 public:
  virtual ~FederationLayer() = default;
  /// The one below, if this one leaves requests and replies as they are; else null.
  virtual Federation* below() = 0;
};

/// The nearest federation of this kind under layers that change nothing; null: none.
template <typename Kind>
Kind* find_layer(Federation& top) {
  for (Federation* at = &top; at != nullptr;) {
    if (auto* found = dynamic_cast<Kind*>(at)) return found;
    auto* layer = dynamic_cast<FederationLayer*>(at);
    at = layer != nullptr ? layer->below() : nullptr;
  }
  return nullptr;
}

}  // namespace chorus::inline ports
