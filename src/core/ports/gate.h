#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/ports/message.h"
#include "core/ports/variant.h"
#include "core/ports/workbench.h"

namespace chorus::inline ports {

/// Whose message passes a gate, and when: what random draws and memories are filed under.
struct GateMoment {
  std::string_view procedure = {};
  Variant variant = {};
  std::uint64_t round = 0;
  std::uint64_t ask = 0;     ///< how often the round had asked before
  std::uint64_t client = 0;  ///< whose own message it is; 0 for what everybody gets
  /// Where a sender keeps what it remembers between rounds; called only when there is something. Null: nowhere.
  std::function<ClientState&()> memory = {};
};

/// What filters came to, over some tensors.
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
  /// DataError when a message cannot be sent (values that are not finite).
  virtual GateTotals send(Message& message, const GateMoment& moment) const = 0;
  /// DataError when a message cannot be read; tensors come to the gate's device.
  virtual GateTotals receive(Message& message, const GateMoment& moment) const = 0;
};

}  // namespace chorus::inline ports
