#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/ports/message.h"
#include "core/ports/variant.h"
#include "core/ports/workbench.h"

namespace chorus::inline ports {

/// Identifies a message that passes a gate: the key of random draws and remembered errors.
struct GateMoment {
  std::string_view procedure = {};
  Variant variant = {};
  std::uint64_t round = 0;
  std::uint64_t ask = 0;     ///< earlier asks of this round
  std::uint64_t client = 0;  ///< the client it belongs to; 0 for the shared part
  /// The state in which the sender remembers errors between rounds; called only if needed. Null: nothing is kept.
  std::function<ClientState&()> memory = {};
};

/// Totals over all filtered tensors.
struct GateTotals {
  double raw = 0;     ///< bytes as float32
  double packed = 0;  ///< bytes that travel
  double norm2 = 0, error2 = 0;

  double ratio() const { return packed > 0 ? raw / packed : 1; }  ///< 1 when nothing was filtered
  double error() const;                                           ///< |x - decoded| / |x|, all tensors as one
  GateTotals& operator+=(const GateTotals& more);
};

/// One end of the channel between a server and its clients: filters what leaves and restores what arrives. Both ends
/// have this shape; what one sends the other receives. Thread-safe.
class Gate {
 public:
  virtual ~Gate() = default;
  /// DataError if a message cannot be sent (non-finite values).
  virtual GateTotals send(Message& message, const GateMoment& moment) const = 0;
  /// DataError if a message cannot be read. Tensors are moved to the gate's device.
  virtual GateTotals receive(Message& message, const GateMoment& moment) const = 0;
};

}  // namespace chorus::inline ports
