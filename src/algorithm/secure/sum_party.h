#pragma once

#include <map>
#include <memory>
#include <vector>

#include "algorithm/secure/ring_vector.h"
#include "core/base/client_id.h"
#include "core/base/result.h"

namespace chorus::inline secure {

/// A client of one secure sum, whatever its protocol: a state machine over messages. It speaks first; every message of
/// the server is answered by one of its own, until it has nothing more to say.
class SumParty {
 public:
  virtual ~SumParty() = default;
  /// The first message; the same bytes each time.
  virtual const Bytes& advertise() const = 0;
  /// The reply. A failure: nothing is sent.
  virtual Result<Bytes> receive(ByteView message) = 0;
};

/// The server of one secure sum. A caller delivers what clients send, closes each phase when it has waited long enough,
/// and sends what `close` returns; clients that did not reply in time have vanished.
class SumHost {
 public:
  enum class Accepted { kNew, kAgain };
  /// Messages by who receives them; one that everybody receives is held once.
  using Outgoing = std::map<ClientId, std::shared_ptr<const Bytes>>;
  virtual ~SumHost() = default;

  /// A message from `from`, whom the transport has authenticated.
  virtual Result<Accepted> receive(ClientId from, ByteView message) = 0;
  /// Ends the phase: what to send to whom in the next one; nothing to send after the last. A failure aborts.
  virtual Result<Outgoing> close() = 0;
  /// The sum is known.
  virtual bool done() const = 0;
  /// Whose inputs the sum has; known when all inputs have arrived.
  virtual const std::vector<ClientId>& survivors() const = 0;
  /// InternalError before it is done.
  virtual const RingVector& sum() const = 0;
};

}  // namespace chorus::inline secure
