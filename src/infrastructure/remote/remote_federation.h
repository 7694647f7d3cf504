#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/ports/federation.h"
#include "core/ports/transport.h"
#include "infrastructure/transport/wire/wire.h"

namespace chorus::inline remote {

struct RemoteFederationInput {
  ServerTransport& transport;       ///< borrowed; must outlive the replies, too
  std::uint64_t run = 0;            ///< stamped on every request, as is the layout
  std::uint64_t layout = 0;         ///< fingerprint of what trains
  std::function<bool()> stop = {};  ///< true: give up (Ctrl-C)
  /// A peer has connected; `identity` as for TransportEvent. It is on the roster once it says whom it hosts.
  std::function<void(PeerId, const std::string& identity)> joined = {};
  /// A peer sent what is not about requests.
  std::function<void(PeerId, const std::string& identity, const ControlFrame&)> control = {};
  /// The only client that a peer of this name may host; nothing: none. Empty: whoever says so first.
  std::function<std::optional<ClientId>(const std::string& identity)> id_of = {};
  std::uint64_t before_first = 0;  ///< numbers of requests follow this one; a server that is restarted needs others
  /// Peers that each host all clients. Above 1, a cohort is divided among them by numbers of examples, in its order.
  std::size_t sharing = 1;
  double patience = 60;  ///< seconds a peer has to confirm that it kept its state; then it is not asked until it does
  std::size_t unread = 64U << 20U;  ///< bytes of replies to background requests that may wait while `poll` reads on
};

/// Clients that are reached through a transport: the server's half. A client process says whom it hosts when it joins
/// (client_service.h); the shared part of a request is encoded once for all of them; replies are read as they arrive.
///
/// Everything a peer sends is checked. A reply that was not asked for, comes twice or comes from another peer than the
/// client's is dropped. A peer that leaves, or sends bytes that are no frame, fails its clients; so does a deadline.
/// A peer that the transport knows by name hosts clients of that name only. With Request::enough, the others are told
/// to stop once so many replies are there.
///
/// Several requests may be under way: whoever reads replies, waits or polls passes each reply to its request. A client
/// whose reply to a background request has not been read is not asked for anything else: that fails at once.
///
/// A request names the state that a client builds on, by the number of the request whose reply gave it. So a client
/// that dies, or loses its connection, before it hears that its reply was accepted still continues from the right
/// state.
class RemoteFederation : public Federation {
 public:
  explicit RemoteFederation(const RemoteFederationInput& input);
  ~RemoteFederation() override;

  /// Handles what arrives until so many clients are on the roster and alive. False: not within so many seconds.
  bool wait_for(std::size_t clients, double seconds);

  /// Handles what has arrived, and what arrives within so many seconds. Reads nothing while replies to background
  /// requests wait to be read (RemoteFederationInput::unread): the transport holds back who sends more, and deadlines
  /// stand still.
  void poll(double seconds = 0);

  const Roster& roster() const override;
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  void end_session(std::uint64_t session) override;
  Traffic traffic() const override;
  void wait(double seconds) override;

  /// A client that does not want to work is not asked for so many seconds, unless it connects again.
  void rest(ClientId client, double seconds);
  bool rests(ClientId client) const;

  /// Of each client with an accepted state: the number of the request that it replied to. Belongs in a checkpoint.
  std::map<ClientId, std::uint64_t> kept() const;
  void restore_kept(std::map<ClientId, std::uint64_t> kept);

  /// To every peer that is connected, on the roster or not.
  void tell_all(const ControlFrame& frame);

 private:
  struct Shared;
  class Asking;
  std::shared_ptr<Shared> shared_;
};

}  // namespace chorus::inline remote
