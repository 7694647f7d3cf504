#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/ports/roster.h"
#include "core/ports/transport.h"

namespace chorus::inline remote {

/// Which peers are connected, which clients they host, and who of them can be asked.
///
///     PeerBook book(id_of, 1);
///     book.identity_of[peer] = identity;
///     book.join(peer, hello.clients);
///     book.roster;
struct PeerBook {
  using Clock = std::chrono::steady_clock;
  /// The only client that a peer of this name may host; nothing: none. Empty: whoever says so first.
  using IdOf = std::function<std::optional<ClientId>(const std::string& identity)>;

  /// `peers`: that each host all clients (RemoteFederationInput).
  PeerBook(IdOf of_name, std::size_t peers) : id_of(std::move(of_name)), sharing(peers) {}

  /// A peer says whom it hosts. Clients that are another's are ignored.
  void join(PeerId peer, std::vector<RosterEntry> clients);
  void leave(PeerId peer);
  /// A client is not asked until then, unless it joins again.
  void rest(ClientId client, Clock::time_point until);
  /// Ends the rest of those whose time is over.
  void wake();
  /// A peer that has not confirmed a request in time is not asked until it does: it may be busy with a request that is
  /// over, or never answer. Nothing: it has confirmed.
  void set_stalled(PeerId peer, std::optional<std::uint64_t> number);

  bool can_be_asked(ClientId client) const;
  /// Whether a client is connected, and not asked for a while.
  bool rests(ClientId client) const;
  std::size_t askable() const;
  /// Who is asked for each of these clients; 0: nobody.
  std::vector<PeerId> peers_for(std::span<const ClientId> cohort) const;

  IdOf id_of;
  std::size_t sharing;
  Roster roster = {};
  std::map<PeerId, std::string> identity_of = {};  ///< as the transport says; of peers that are here
  std::map<PeerId, std::uint64_t> stalled = {};    ///< did not confirm this request in time
  std::set<PeerId> hosts = {};                     ///< said whom they host

 private:
  bool may_host(const std::string& identity, RosterEntry& entry) const;
  void refresh();

  std::map<ClientId, RosterEntry> members_ = {};
  std::map<ClientId, PeerId> peer_of_ = {};
  std::map<ClientId, std::string> owner_of_ = {};       // the identity that a client joined with first
  std::map<ClientId, Clock::time_point> resting_ = {};  // not asked until then
};

}  // namespace chorus::inline remote
