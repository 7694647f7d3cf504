#include "infrastructure/remote/remote_federation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/remote/peer_book.h"

namespace chorus::inline remote {
namespace {

constexpr double kPollSeconds = 0.2;  // how often `stop` and deadlines are looked at

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

/// The peers and what is known of them. Used by one thread at a time, but for `send`.
struct RemoteFederation::Shared : PeerBook {
  explicit Shared(const RemoteFederationInput& given)
      : PeerBook(given.id_of, given.sharing), input(given), last_number(given.before_first) {}

  RemoteFederationInput input;
  Traffic traffic;
  std::uint64_t last_number;
  std::map<std::uint64_t, Asking*> open;               // requests under way, by number
  std::map<std::uint64_t, std::set<PeerId>> sessions;  // under way: who was asked in each
  double deaf = 0;  // seconds in which nothing was read although it might have arrived
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

  bool send(PeerId peer, const Frame& frame) {
    return input.transport.send(peer, std::make_shared<const FrameBytes>(encode_frame(frame)));
  }

  /// The reply an event carries, if it is one. `lost`: a peer that left or cannot be understood.
  struct Seen {
    std::optional<ReplyFrame> reply = {};
    std::optional<PeerId> lost = {};
    std::optional<std::uint64_t> synced = {};
  };
  /// Waits for an event, and tells the requests that it is about. False: none came.
  bool pump(double seconds) {
    auto event = input.transport.receive(seconds);
    if (event) dispatch(std::move(*event));
    return event.has_value();
  }
  void dispatch(TransportEvent event);
  /// Of background requests: bytes of replies that nobody has read, and clients that work or sent one of them.
  std::size_t unread() const;
  std::set<ClientId> busy() const;

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
      join(event.peer, std::get<HelloFrame>(std::move(frame).value()).clients);
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
        begin_(Clock::now()),
        deaf_before_(shared_->deaf) {
    request.run = shared_->input.run;
    request.layout = shared_->input.layout;
    const std::vector<PeerId> peers = shared_->peers_for(cohort_);
    const std::set<ClientId> busy = background_ ? std::set<ClientId>{} : shared_->busy();
    std::map<PeerId, CohortFrame> parts;
    for (std::size_t slot = 0; slot < cohort_.size(); ++slot) {
      if (busy.contains(cohort_[slot])) {
        ready_.push_back(failed(slot, "it still works for an earlier request"));
        continue;
      }
      if (peers[slot] == 0) {
        ready_.push_back(failed(slot, "it is not connected"));
        continue;
      }
      CohortFrame& part = parts[peers[slot]];
      part.number = number_;
      part.members.push_back({cohort_[slot], slot, request.own_of(slot), shared_->kept_of(cohort_[slot])});
    }
    if (request.session != 0) {
      for (const auto& part : parts) shared_->sessions[request.session].insert(part.first);
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
          while (ready_.empty() && shared_->pump(0)) {  // what came in time while nobody read
          }
          if (!ready_.empty()) break;
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

  bool background() const { return background_; }
  /// Bytes of replies that nobody has read.
  std::size_t unread() const {
    std::size_t bytes = 0;
    for (const Reply& reply : ready_) bytes += reply.bytes_up;
    return bytes;
  }
  /// Adds the clients that work, or whose replies nobody has read.
  void add_busy(std::set<ClientId>& busy) const {
    for (const auto& entry : waiting_) busy.insert(cohort_[entry.first]);
    for (const Reply& reply : ready_) busy.insert(reply.client);
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
  double left() const { return *deadline_ - (seconds_since(begin_) - (shared_->deaf - deaf_before_)); }

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
  double deaf_before_;
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

std::size_t RemoteFederation::Shared::unread() const {
  std::size_t bytes = 0;
  for (const auto& entry : open) bytes += entry.second->background() ? entry.second->unread() : 0;
  return bytes;
}

std::set<ClientId> RemoteFederation::Shared::busy() const {
  std::set<ClientId> busy;
  for (const auto& entry : open) {
    if (entry.second->background()) entry.second->add_busy(busy);
  }
  return busy;
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

void RemoteFederation::poll(double seconds) {
  shared_->wake();
  const Clock::time_point begin = Clock::now();
  const auto left = [&] { return std::max(0.0, seconds - seconds_since(begin)); };
  while (shared_->unread() < shared_->input.unread) {
    if (!shared_->pump(left())) return;
  }
  const double rest = left();
  std::this_thread::sleep_for(std::chrono::duration<double>(rest));
  shared_->deaf += rest;
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
  // Others would hold what does not concern them for as long as their clients work.
  for (const PeerId peer : shared_->sessions[session]) {
    if (shared_->hosts.contains(peer)) shared_->send(peer, EndSessionFrame{session});
  }
  shared_->sessions.erase(session);
}

Traffic RemoteFederation::traffic() const { return shared_->traffic; }

void RemoteFederation::rest(ClientId client, double seconds) {
  shared_->rest(client,
                Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

bool RemoteFederation::rests(ClientId client) const { return shared_->rests(client); }

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
