#include "infrastructure/remote/remote_federation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/tensor/flat_math.h"
#include "infrastructure/remote/even_parts.h"

namespace chorus::inline remote {
namespace {

constexpr double kPollSeconds = 0.2;  // how often `stop` and deadlines are looked at

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

/// The peers and what is known of them. Used by one thread at a time, but for `send`.
struct RemoteFederation::Shared {
  explicit Shared(const RemoteFederationInput& given) : input(given), last_number(given.before_first) {}

  RemoteFederationInput input;
  std::map<ClientId, RosterEntry> members;
  std::map<ClientId, PeerId> peer_of;
  std::map<PeerId, std::string> identity_of;      // as the transport says; of peers that are here
  std::map<ClientId, std::string> owner_of;       // the identity that a client joined with first
  std::map<PeerId, std::uint64_t> stalled;        // did not confirm this request in time
  std::map<ClientId, Clock::time_point> resting;  // not asked until then
  std::set<PeerId> hosts;                         // said whom they host
  Roster roster;
  Traffic traffic;
  std::uint64_t last_number;
  std::map<std::uint64_t, Asking*> open;  // requests under way, by number
  std::mutex kept_mutex;
  std::map<ClientId, std::uint64_t> kept;  // guarded: replies may be accepted by another thread

  std::uint64_t kept_of(ClientId client) {
    const std::lock_guard lock(kept_mutex);
    const auto found = kept.find(client);
    return found == kept.end() ? 0 : found->second;
  }
  void keep(ClientId client, std::uint64_t number) {
    const std::lock_guard lock(kept_mutex);
    kept[client] = number;
  }

  bool can_be_asked(ClientId client) const {
    const auto peer = peer_of.find(client);
    return peer != peer_of.end() && !stalled.contains(peer->second) && !resting.contains(client);
  }
  std::size_t askable() const {
    return static_cast<std::size_t>(
        std::count_if(peer_of.begin(), peer_of.end(), [&](const auto& entry) { return can_be_asked(entry.first); }));
  }
  void rest(ClientId client, Clock::time_point until) {
    resting[client] = until;
    members.at(client).alive = false;
    refresh();
  }
  void wake() {
    const auto now = Clock::now();
    for (auto entry = resting.begin(); entry != resting.end();) {
      if (entry->second > now) {
        ++entry;
        continue;
      }
      const ClientId client = entry->first;
      entry = resting.erase(entry);
      members.at(client).alive = can_be_asked(client);
      refresh();
    }
  }

  bool send(PeerId peer, const Frame& frame) {
    return input.transport.send(peer, std::make_shared<const FrameBytes>(encode_frame(frame)));
  }

  void leave(PeerId peer) {
    for (auto entry = peer_of.begin(); entry != peer_of.end();) {
      if (entry->second != peer) {
        ++entry;
        continue;
      }
      members.at(entry->first).alive = false;
      entry = peer_of.erase(entry);
    }
    stalled.erase(peer);
    hosts.erase(peer);
    refresh();
  }

  /// Who is asked for each of these clients; 0: nobody.
  std::vector<PeerId> peers_for(std::span<const ClientId> cohort) const {
    std::vector<PeerId> peers;
    for (const ClientId client : cohort) {
      const auto found = peer_of.find(client);
      peers.push_back(found == peer_of.end() ? 0 : found->second);
    }
    if (input.sharing < 2) return peers;
    std::vector<double> work;
    for (const ClientId client : cohort) work.push_back(roster.size_of(client));
    const std::vector<PeerId> all(hosts.begin(), hosts.end());
    const std::vector<std::size_t> ends = even_parts(work, all.size(), kMostTerms);
    for (std::size_t part = 0, slot = 0; part < all.size(); ++part) {
      for (; slot < ends[part]; ++slot) peers[slot] = all[part];
    }
    return peers;
  }

  /// A peer that has not confirmed in time is not asked until it does: it may be busy with a request that is over, or
  /// never answer.
  void set_stalled(PeerId peer, std::optional<std::uint64_t> number) {
    if (number) {
      stalled[peer] = *number;
    } else {
      stalled.erase(peer);
    }
    for (const auto& [client, its] : peer_of) {
      if (its == peer) members.at(client).alive = can_be_asked(client);
    }
    refresh();
  }

  /// Where the transport vouches for a peer's name, its clients are called NAME or NAME/..., and an id that a client
  /// of one name has had is never another's.
  bool may_host(const std::string& identity, RosterEntry& entry) const {
    if (input.id_of && input.id_of(identity) != entry.id) return false;
    const auto known = owner_of.find(entry.id);
    if (known != owner_of.end() && known->second != identity) return false;
    if (identity.empty()) return true;
    if (entry.name.empty()) entry.name = identity;
    return entry.name == identity || entry.name.starts_with(identity + "/");
  }

  void join(PeerId peer, HelloFrame hello) {
    const std::string& identity = identity_of[peer];
    hosts.insert(peer);
    for (RosterEntry& entry : hello.clients) {
      if (!may_host(identity, entry)) {
        Log("remote").warning("\"{}\" claims to be client {} (\"{}\"), which is another's; it is ignored", identity,
                              entry.id, entry.name);
        continue;
      }
      if (peer_of.contains(entry.id) && input.sharing > 1) continue;
      if (peer_of.contains(entry.id)) {
        Log("remote").warning("client {} is already connected; a second process that claims to be it is ignored",
                              entry.id);
        continue;
      }
      peer_of[entry.id] = peer;
      resting.erase(entry.id);
      owner_of[entry.id] = identity;
      entry.alive = true;
      members[entry.id] = std::move(entry);
    }
    refresh();
  }

  /// The reply an event carries, if it is one. `lost`: a peer that left or cannot be understood.
  struct Seen {
    std::optional<ReplyFrame> reply = {};
    std::optional<PeerId> lost = {};
    std::optional<std::uint64_t> synced = {};
  };
  /// Waits for an event, and tells the requests that it is about.
  void pump(double seconds) {
    if (auto event = input.transport.receive(seconds)) dispatch(std::move(*event));
  }
  void dispatch(TransportEvent event);

 private:
  Seen handle(TransportEvent event) {
    Seen seen;
    if (event.kind == TransportEvent::Kind::kJoined) {
      identity_of[event.peer] = std::move(event.identity);
      if (input.joined) input.joined(event.peer, identity_of[event.peer]);
      return seen;
    }
    if (event.kind == TransportEvent::Kind::kLeft) {
      leave(event.peer);
      identity_of.erase(event.peer);
      seen.lost = event.peer;
      return seen;
    }
    const std::size_t size = event.bytes().size();
    auto frame = event.file ? decode_frame(event.file->bytes(), event.file)
                            : decode_frame(std::make_shared<const std::string>(std::move(event.frame)));
    if (frame.ok() && std::holds_alternative<HelloFrame>(frame.value())) {
      join(event.peer, std::get<HelloFrame>(std::move(frame).value()));
    } else if (frame.ok() && std::holds_alternative<ReplyFrame>(frame.value())) {
      seen.reply = std::get<ReplyFrame>(std::move(frame).value());
      seen.reply->reply.bytes_up = size;
    } else if (frame.ok() && std::holds_alternative<SyncFrame>(frame.value())) {
      seen.synced = std::get<SyncFrame>(frame.value()).number;
      const auto late = stalled.find(event.peer);
      if (late != stalled.end() && late->second == *seen.synced) set_stalled(event.peer, std::nullopt);
    } else if (frame.ok() && std::holds_alternative<ControlFrame>(frame.value())) {
      if (input.control) input.control(event.peer, identity_of[event.peer], std::get<ControlFrame>(frame.value()));
    } else {
      Log("remote").warning("a peer is dropped: {}",
                            frame.ok() ? "it sent what only a server may send" : frame.failure().message);
      leave(event.peer);
      seen.lost = event.peer;
    }
    return seen;
  }

  void refresh() {
    std::vector<RosterEntry> all;
    for (const auto& entry : members) all.push_back(entry.second);
    roster = Roster(std::move(all));
  }
};

/// One request under way.
class RemoteFederation::Asking {
 public:
  Asking(std::shared_ptr<Shared> shared, std::span<const ClientId> cohort, Request request)
      : shared_(std::move(shared)),
        number_(++shared_->last_number),
        cohort_(cohort.begin(), cohort.end()),
        enough_(request.enough),
        deadline_(request.deadline),
        background_(request.background),
        round_(request.round),
        begin_(Clock::now()) {
    request.run = shared_->input.run;
    request.layout = shared_->input.layout;
    const std::vector<PeerId> peers = shared_->peers_for(cohort_);
    std::map<PeerId, CohortFrame> parts;
    for (std::size_t slot = 0; slot < cohort_.size(); ++slot) {
      if (peers[slot] == 0) {
        ready_.push_back(failed(slot, "it is not connected"));
        continue;
      }
      CohortFrame& part = parts[peers[slot]];
      part.number = number_;
      part.members.push_back({cohort_[slot], slot, request.own_of(slot), shared_->kept_of(cohort_[slot])});
    }
    // The transport alone keeps it, so a model that all peers have does not fill the server's memory.
    const auto frame = std::make_shared<const FrameBytes>(encode_parts(RequestFrame{number_, std::move(request)}));
    bytes_down_.assign(cohort_.size(), 0);
    for (const auto& [peer, part] : parts) {
      const auto own = std::make_shared<const FrameBytes>(encode_frame(part));
      const bool sent = shared_->input.transport.send(peer, frame, true) && shared_->input.transport.send(peer, own);
      for (const CohortFrame::Member& member : part.members) {
        bytes_down_[member.slot] = frame->size() + own->size() / part.members.size();
        if (sent) {
          waiting_[member.slot] = peer;
        } else {
          ready_.push_back(failed(member.slot, "its connection is lost"));
        }
      }
    }
    shared_->open[number_] = this;
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  ~Asking() {
    shared_->open.erase(number_);
    cancel();
  }

  /// Whether `next` answers at once.
  bool ready() const { return !ready_.empty() || waiting_.empty() || answered() || (deadline_ && left() <= 0); }

  std::optional<Reply> next() {
    while (ready_.empty() && !waiting_.empty()) {
      if (answered()) {
        give_up(fmt::format("{} others were faster", enough_));
        break;
      }
      if (shared_->input.stop && shared_->input.stop()) throw Interrupted();
      double patience = kPollSeconds;
      if (deadline_) {
        if (left() <= 0) {
          give_up(fmt::format("it did not reply within {:g} seconds", *deadline_));
          break;
        }
        patience = std::min(patience, left());
      }
      shared_->pump(patience);
    }
    if (ready_.empty()) {
      if (!background_) wait_for_accepted();
      return std::nullopt;
    }
    Reply reply = std::move(ready_.front());
    ready_.pop_front();
    reply.bytes_down = bytes_down_[reply.slot];
    reply.seconds = seconds_since(begin_);
    shared_->traffic.down += reply.bytes_down;
    shared_->traffic.up += reply.bytes_up;
    return reply;
  }

  /// What a peer sent, or that it left.
  void see(PeerId peer, Shared::Seen& seen) {
    if (seen.lost || seen.synced == number_) syncing_.erase(peer);
    if (seen.lost) {
      for (auto entry = waiting_.begin(); entry != waiting_.end();) {
        if (entry->second != peer) {
          ++entry;
          continue;
        }
        ready_.push_back(failed(entry->first, "its connection is lost"));
        entry = waiting_.erase(entry);
      }
    }
    if (!seen.reply || seen.reply->number != number_) return;
    Reply& reply = seen.reply->reply;
    const auto expected = waiting_.find(reply.slot);
    if (expected == waiting_.end() || expected->second != peer || cohort_[reply.slot] != reply.client) {
      Log("remote").warning("client {} sent a reply that nobody asked for; it is dropped", reply.client);
      return;
    }
    waiting_.erase(expected);
    if (reply.ok()) ++used_;
    if (reply.ok() && seen.reply->keeps) {
      const AcceptFrame accept{number_, reply.slot};
      reply.on_accept = [shared = shared_, accepted = accepted_, peer, accept, client = reply.client] {
        shared->keep(client, accept.number);
        if (shared->send(peer, accept)) accepted->insert(peer);
      };
    }
    ready_.push_back(std::move(reply));
  }

 private:
  bool answered() const { return enough_ > 0 && used_ >= enough_; }
  double left() const { return *deadline_ - seconds_since(begin_); }

  Reply failed(std::size_t slot, std::string why) const {
    Reply reply;
    reply.client = cohort_[slot];
    reply.slot = slot;
    reply.failure = std::move(why);
    return reply;
  }

  /// After the last reply: clients have kept the state of those that were accepted, so that what follows (a checkpoint,
  /// the next request) finds it.
  void wait_for_accepted() {
    for (const PeerId peer : *accepted_) {
      if (shared_->send(peer, SyncFrame{number_})) syncing_.insert(peer);
    }
    accepted_->clear();
    const Clock::time_point begin = Clock::now();
    while (!syncing_.empty()) {
      if (seconds_since(begin) > shared_->input.patience) {
        for (const PeerId peer : syncing_) {
          Log("remote").warning(
              "{} did not confirm round {} within {:g} s; it is not asked until it does",
              shared_->identity_of[peer].empty() ? fmt::format("peer {}", peer) : shared_->identity_of[peer], round_,
              shared_->input.patience);
          shared_->set_stalled(peer, number_);
        }
        syncing_.clear();
        break;
      }
      if (shared_->input.stop && shared_->input.stop()) throw Interrupted();
      shared_->pump(kPollSeconds);
    }
  }

  void give_up(const std::string& why) {
    cancel();
    for (const auto& entry : waiting_) ready_.push_back(failed(entry.first, why));
    waiting_.clear();
  }

  void cancel() {
    std::set<PeerId> peers;
    for (const auto& entry : waiting_) peers.insert(entry.second);
    for (const PeerId peer : peers) shared_->send(peer, CancelFrame{number_});
  }

  std::shared_ptr<Shared> shared_;
  std::uint64_t number_;
  std::vector<ClientId> cohort_;
  std::size_t enough_, used_ = 0;
  std::optional<double> deadline_;
  bool background_;
  std::uint64_t round_;
  Clock::time_point begin_;
  std::vector<std::uint64_t> bytes_down_;  // per slot
  std::map<std::size_t, PeerId> waiting_;  // slots that have not replied
  std::deque<Reply> ready_;
  std::shared_ptr<std::set<PeerId>> accepted_ = std::make_shared<std::set<PeerId>>();  // whose replies were
  std::set<PeerId> syncing_;  // who has not said yet that it has kept its state
};

void RemoteFederation::Shared::dispatch(TransportEvent event) {
  const PeerId peer = event.peer;
  Seen seen = handle(std::move(event));
  if (seen.lost || seen.synced) {
    for (const auto& entry : open) entry.second->see(peer, seen);
  } else if (seen.reply) {  // a late one is dropped: its request is over
    if (const auto asking = open.find(seen.reply->number); asking != open.end()) asking->second->see(peer, seen);
  }
}

RemoteFederation::RemoteFederation(const RemoteFederationInput& input) : shared_(std::make_shared<Shared>(input)) {}
RemoteFederation::~RemoteFederation() = default;

bool RemoteFederation::wait_for(std::size_t clients, double seconds) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    shared_->wake();
    if (shared_->askable() >= clients &&
        (shared_->input.sharing < 2 || shared_->hosts.size() >= shared_->input.sharing))
      return true;
    const double left = seconds - seconds_since(begin);
    if (left <= 0) return false;
    if (shared_->input.stop && shared_->input.stop()) throw Interrupted();
    shared_->pump(std::min(left, kPollSeconds));
  }
}

void RemoteFederation::poll() {
  shared_->wake();
  while (auto event = shared_->input.transport.receive(0.0)) shared_->dispatch(std::move(*event));
}

void RemoteFederation::wait(double seconds) {
  if (shared_->input.stop && shared_->input.stop()) throw Interrupted();
  shared_->wake();
  shared_->pump(std::min(seconds, kPollSeconds));
}

const Roster& RemoteFederation::roster() const { return shared_->roster; }

Replies RemoteFederation::ask(std::span<const ClientId> cohort, Request request) {
  std::set<ClientId> once(cohort.begin(), cohort.end());
  check(once.size() == cohort.size(), "a client is asked once at a time");
  for (const ClientId id : once) check(roster().find(id) != nullptr, "no such client");
  check(request.own.empty() || request.own.size() == cohort.size(), "a request has one own message per client");
  const auto asking = std::make_shared<Asking>(shared_, cohort, std::move(request));
  return Replies([asking] { return asking->next(); }, [asking] { return asking->ready(); });
}

void RemoteFederation::end_session(std::uint64_t session) {
  for (const PeerId peer : shared_->hosts) shared_->send(peer, EndSessionFrame{session});
}

Traffic RemoteFederation::traffic() const { return shared_->traffic; }

void RemoteFederation::rest(ClientId client, double seconds) {
  shared_->rest(client,
                Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

bool RemoteFederation::rests(ClientId client) const {
  return shared_->resting.contains(client) && shared_->peer_of.contains(client);
}

std::map<ClientId, std::uint64_t> RemoteFederation::kept() const {
  const std::lock_guard lock(shared_->kept_mutex);
  return shared_->kept;
}

void RemoteFederation::restore_kept(std::map<ClientId, std::uint64_t> kept) {
  const std::lock_guard lock(shared_->kept_mutex);
  shared_->kept = std::move(kept);
}

void RemoteFederation::tell_all(const ControlFrame& frame) {
  const auto bytes = std::make_shared<const FrameBytes>(encode_frame(frame));
  for (const auto& entry : shared_->identity_of) shared_->input.transport.send(entry.first, bytes);
}

}  // namespace chorus::inline remote
