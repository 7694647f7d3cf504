#include "infrastructure/remote/peer_book.h"

#include <algorithm>

#include "core/console/log.h"
#include "core/tensor/flat_math.h"
#include "infrastructure/remote/even_parts.h"

namespace chorus::inline remote {

bool PeerBook::can_be_asked(ClientId client) const {
  const auto peer = peer_of_.find(client);
  return peer != peer_of_.end() && !stalled.contains(peer->second) && !resting_.contains(client);
}

bool PeerBook::rests(ClientId client) const { return resting_.contains(client) && peer_of_.contains(client); }

std::size_t PeerBook::askable() const {
  return static_cast<std::size_t>(
      std::count_if(peer_of_.begin(), peer_of_.end(), [&](const auto& entry) { return can_be_asked(entry.first); }));
}

void PeerBook::rest(ClientId client, Clock::time_point until) {
  resting_[client] = until;
  members_.at(client).alive = false;
  refresh();
}

void PeerBook::wake() {
  const auto now = Clock::now();
  for (auto entry = resting_.begin(); entry != resting_.end();) {
    if (entry->second > now) {
      ++entry;
      continue;
    }
    const ClientId client = entry->first;
    entry = resting_.erase(entry);
    members_.at(client).alive = can_be_asked(client);
    refresh();
  }
}

void PeerBook::leave(PeerId peer) {
  for (auto entry = peer_of_.begin(); entry != peer_of_.end();) {
    if (entry->second != peer) {
      ++entry;
      continue;
    }
    members_.at(entry->first).alive = false;
    entry = peer_of_.erase(entry);
  }
  stalled.erase(peer);
  hosts.erase(peer);
  refresh();
}

std::vector<PeerId> PeerBook::peers_for(std::span<const ClientId> cohort) const {
  std::vector<PeerId> peers;
  for (const ClientId client : cohort) {
    const auto found = peer_of_.find(client);
    peers.push_back(found == peer_of_.end() ? 0 : found->second);
  }
  if (sharing < 2) return peers;
  std::vector<double> work;
  for (const ClientId client : cohort) work.push_back(roster.size_of(client));
  const std::vector<PeerId> all(hosts.begin(), hosts.end());
  const std::vector<std::size_t> ends = even_parts(work, all.size(), kMostTerms);
  for (std::size_t part = 0, slot = 0; part < all.size(); ++part) {
    for (; slot < ends[part]; ++slot) peers[slot] = all[part];
  }
  return peers;
}

void PeerBook::set_stalled(PeerId peer, std::optional<std::uint64_t> number) {
  if (number) {
    stalled[peer] = *number;
  } else {
    stalled.erase(peer);
  }
  for (const auto& [client, its] : peer_of_) {
    if (its == peer) members_.at(client).alive = can_be_asked(client);
  }
  refresh();
}

// Where the transport vouches for a peer's name, its clients are called NAME or NAME/..., and an id that a client
// of one name has had is never another's.
bool PeerBook::may_host(const std::string& identity, RosterEntry& entry) const {
  if (id_of && id_of(identity) != entry.id) return false;
  const auto known = owner_of_.find(entry.id);
  if (known != owner_of_.end() && known->second != identity) return false;
  if (identity.empty()) return true;
  if (entry.name.empty()) entry.name = identity;
  return entry.name == identity || entry.name.starts_with(identity + "/");
}

void PeerBook::join(PeerId peer, std::vector<RosterEntry> clients) {
  const std::string& identity = identity_of[peer];
  hosts.insert(peer);
  for (RosterEntry& entry : clients) {
    if (!may_host(identity, entry)) {
      Log("remote").warning("\"{}\" claims to be client {} (\"{}\"), which is another's; it is ignored", identity,
                            entry.id, entry.name);
      continue;
    }
    if (peer_of_.contains(entry.id) && sharing > 1) continue;
    if (peer_of_.contains(entry.id)) {
      Log("remote").warning("client {} is already connected; a second process that claims to be it is ignored",
                            entry.id);
      continue;
    }
    peer_of_[entry.id] = peer;
    resting_.erase(entry.id);
    owner_of_[entry.id] = identity;
    entry.alive = true;
    members_[entry.id] = std::move(entry);
  }
  refresh();
}

void PeerBook::refresh() {
  std::vector<RosterEntry> all;
  for (const auto& entry : members_) all.push_back(entry.second);
  roster = Roster(std::move(all));
}

}  // namespace chorus::inline remote
