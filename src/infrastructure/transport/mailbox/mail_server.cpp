#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/transport/mailbox/mail_peer.h"
#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mailbox/post.h"
#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_mailbox {
namespace {

using ServerClock = std::chrono::steady_clock;

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kAnswerPause = std::chrono::milliseconds(200);  // between two answers to one address without a session

class MailServer final : public ServerTransport {
 public:
  MailServer(std::unique_ptr<Mailbox> mailbox, const MailConfig& config)
      : config_(config), room_(config.room), mailbox_(std::move(mailbox)) {
    mailbox_->open([this](Letter letter) { handle(std::move(letter)); });
    janitor_ = std::thread([this] { tidy(); });
  }
  ~MailServer() override {
    std::map<PeerId, std::shared_ptr<MailPeer>> peers;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
      peers = peers_;
    }
    janitor_.join();
    for (const auto& entry : peers) mailbox_->post(entry.second->address, bye(*entry.second, Verdict::kOver, ""));
    // Not mailbox_.reset(), which clears the pointer while letters may still be handled.
  }

  bool send(PeerId id, std::shared_ptr<const FrameBytes> frame, bool /*more*/) override {
    if (frame->size() > config_.frame_limit) throw WorldError(over_limit(frame->size(), config_.frame_limit));
    const std::shared_ptr<MailPeer> peer = find(id);
    if (!peer) return false;
    const std::lock_guard turn(peer->sending);
    Post post{Post::Kind::kChunk, peer->session, ++peer->sent, frame->size(), 0};
    post.checks_data = config_.checks_data;
    std::string data;
    do {
      data.resize(std::min(config_.chunk, frame->size() - post.offset));
      frame->read(post.offset, data);
      mailbox_->post(peer->address, encode_post(post, data));
      post.offset += data.size();
    } while (post.offset < frame->size() && find(id) != nullptr);
    return find(id) != nullptr;
  }

  std::optional<TransportEvent> receive(std::optional<double> seconds) override {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !events_.empty(); };
    if (!seconds) {
      changed_.wait(lock, ready);
    } else if (!changed_.wait_for(lock, std::chrono::duration<double>(*seconds), ready)) {
      return std::nullopt;
    }
    TransportEvent event = std::move(events_.front().event);
    events_.pop_front();
    if (event.kind != TransportEvent::Kind::kFrame) return event;
    if (const auto found = peers_.find(event.peer); found != peers_.end()) {
      MailPeer& reader = *found->second;
      --reader.unread;
      reader.unread_bytes -= event.frame.size();
      say(reader, {Post::Kind::kAck, reader.session, ++reader.read});  // which lets the client send more
    }
    let_go_on();
    deliver(lock);
    return event;
  }

 private:
  struct Outgoing {
    std::string to, bytes;
  };
  struct Unread {
    TransportEvent event;
    MailRoom::Place place = {};  // of a large frame, until it is read
  };

  std::shared_ptr<MailPeer> find(PeerId id) const {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(id);
    return found == peers_.end() ? nullptr : found->second;
  }
  static std::string bye(const MailPeer& peer, Verdict verdict, const std::string& why) {
    return encode_bye(peer.session, verdict, why);
  }
  // Letters are written with the mutex held and posted without it.
  void say(const MailPeer& peer, const Post& post) { outgoing_.push_back({peer.address, encode_post(post)}); }
  void deliver(std::unique_lock<std::mutex>& lock) {
    const std::vector<Outgoing> letters = std::exchange(outgoing_, {});
    lock.unlock();
    for (const Outgoing& letter : letters) mailbox_->post(letter.to, letter.bytes);
    lock.lock();
  }

  // On the mailbox's thread.
  void handle(Letter letter) {
    std::string_view data;
    const auto post = decode_post(letter.bytes, data);
    if (!post.ok()) {
      Log("transport").warning("a letter is dropped: {}", post.failure().message);
      return;
    }
    std::unique_lock lock(mutex_);
    if (letter.from.empty()) {  // the mailbox itself has lost its connection
      if (!data.empty()) Log("transport").error("{}", data);
      while (!by_key_.empty()) leave(by_key_.begin()->second);
    } else {
      react(letter, post.value(), data);
    }
    deliver(lock);
  }

  void react(const Letter& letter, const Post& post, std::string_view data) {
    const auto known = by_key_.find({letter.from, post.session});
    const std::shared_ptr<MailPeer> peer = known == by_key_.end() ? nullptr : known->second;
    if (post.version != kPostVersion) {
      answer(letter, post, Verdict::kRefused, other_version(post.version, kPostVersion));
    } else if (closing_) {
      answer(letter, post, Verdict::kOver, "");
    } else if (post.kind == Post::Kind::kBye) {
      if (peer) leave(peer);
    } else if (post.kind == Post::Kind::kOpen) {
      if (peer || welcome(letter, post)) {
        outgoing_.push_back({letter.from, encode_post({Post::Kind::kOpened, post.session})});
      }
      if (peer && post.sequence == peer->gatherer.next()) remind(peer);
    } else if (!peer) {
      answer(letter, post, Verdict::kOver, "");  // of an earlier life of this server: it must join anew
    } else if (post.kind == Post::Kind::kChunk) {
      gather(peer, post, data);
    }
  }

  /// A farewell to somebody who has no session here. Whoever sends many letters gets few answers.
  void answer(const Letter& letter, const Post& post, Verdict verdict, const std::string& why) {
    const auto now = ServerClock::now();
    const auto [last, fresh] = answered_.try_emplace(letter.from, now);
    if (!fresh && now - last->second < kAnswerPause) return;
    last->second = now;
    if (!why.empty()) {
      Log("transport").warning("{} was refused: {}", letter.identity.empty() ? "a peer" : letter.identity, why);
    }
    outgoing_.push_back({letter.from, encode_bye(post.session, verdict, why)});
  }

  // One process at a time has an identity. A process that dies is reported by the system that delivers letters.
  bool welcome(const Letter& letter, const Post& post) {
    const auto other = by_key_.lower_bound({letter.from, 0});
    const std::string why = config_.refusal ? config_.refusal(letter.identity) : "";
    if (!why.empty()) {
      answer(letter, post, Verdict::kRefused, why);
    } else if (!letter.identity.empty() && other != by_key_.end() && other->first.first == letter.from) {
      answer(letter, post, Verdict::kLater, "another process is connected with this certificate");
    } else if (peers_.size() >= config_.peers) {
      answer(letter, post, Verdict::kLater, "the server has as many peers as it may");
    } else {
      auto peer = std::make_shared<MailPeer>(++last_peer_, letter, post.session, config_.frame_limit);
      peers_[peer->id] = peer;
      by_key_[{letter.from, post.session}] = peer;
      events_.push_back({{TransportEvent::Kind::kJoined, peer->id, {}, letter.identity}});
      changed_.notify_all();
      mailbox_->answered();
      return true;
    }
    return false;
  }

  void gather(const std::shared_ptr<MailPeer>& peer, const Post& post, std::string_view data) {
    const std::string why =
        data.size() + kPostBytes > kMostLetter ? "its letter is too long" : peer->trouble_with(post);
    if (!why.empty()) {
      drop(peer, Verdict::kRefused, why);
      return;
    }
    const bool begins = peer->gatherer.begins(post), continues = peer->gatherer.continues(post);
    auto frame = peer->gatherer.add(post, data);
    if (continues) peer->pace.add(data.size());
    if (!frame.ok()) {
      drop(peer, Verdict::kOver, frame.failure().message);
    } else if (frame.value()) {
      const std::size_t size = frame.value()->size();
      if (!peer->place && size > kSmallFrameBytes) peer->place = room_.take(size);
      peer->large = 0;
      ++peer->unread;
      peer->unread_bytes += size;
      events_.push_back(
          {{TransportEvent::Kind::kFrame, peer->id, std::move(*frame.value()), {}}, std::move(peer->place)});
      changed_.notify_all();
    } else if (begins) {
      peer->large = post.size;
      room_.queue(peer);
      let_go_on();
    }
  }

  // A client asks whether there is room for the rest of its frame.
  void remind(const std::shared_ptr<MailPeer>& peer) {
    if (!peer->gatherer.partial()) {
      drop(peer, Verdict::kOver, "its letters were lost");
    } else if (peer->place) {
      say(*peer, {Post::Kind::kGo, peer->session, peer->gatherer.next()});
    }
  }

  void let_go_on() {
    while (const auto peer = room_.next()) say(*peer, {Post::Kind::kGo, peer->session, peer->gatherer.next()});
  }

  void drop(const std::shared_ptr<MailPeer>& peer, Verdict verdict, const std::string& why) {
    Log("transport").warning("{} is dropped: {}", peer->name(), why);
    outgoing_.push_back({peer->address, bye(*peer, verdict, why)});
    leave(peer);
  }

  void leave(const std::shared_ptr<MailPeer>& left) {
    const std::shared_ptr<MailPeer> peer = left;  // the caller's reference may be a member of what is erased
    by_key_.erase({peer->address, peer->session});
    peers_.erase(peer->id);
    room_.forget(*peer);
    events_.push_back({{TransportEvent::Kind::kLeft, peer->id, {}, {}}});
    changed_.notify_all();
    let_go_on();
  }

  // Drops who must not be here any more, or has taken too long. Runs on its own thread until the server closes.
  void tidy() {
    std::unique_lock lock(mutex_);
    while (!closing_) {
      changed_.wait_for(lock, kTick, [&] { return closing_; });
      if (closing_) return;
      const auto now = ServerClock::now();
      const std::map<PeerId, std::shared_ptr<MailPeer>> peers = peers_;
      for (const auto& [id, peer] : peers) {
        const std::string why = config_.refusal ? config_.refusal(peer->identity) : "";
        const std::string slow = peer->place ? peer->pace.trouble({config_.stall, config_.slowest}) : "";
        if (!why.empty()) {
          drop(peer, Verdict::kRefused, why);
        } else if (!slow.empty()) {
          drop(peer, Verdict::kOver, slow);
        }
      }
      std::erase_if(answered_, [&](const auto& entry) { return now - entry.second > kAnswerPause; });
      deliver(lock);
    }
  }

  const MailConfig config_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MailRoom room_;  // outlives those that have a place in it
  std::deque<Unread> events_;
  std::map<PeerId, std::shared_ptr<MailPeer>> peers_;
  std::map<std::pair<std::string, std::uint64_t>, std::shared_ptr<MailPeer>> by_key_;  // address and session
  std::map<std::string, ServerClock::time_point> answered_;                            // addresses, a moment ago
  std::vector<Outgoing> outgoing_;
  PeerId last_peer_ = 0;
  bool closing_ = false;
  std::thread janitor_;
  std::unique_ptr<Mailbox> mailbox_;  // last: its thread uses the rest
};

}  // namespace

std::unique_ptr<ServerTransport> make_mail_server(std::unique_ptr<Mailbox> mailbox, const MailConfig& config) {
  return std::make_unique<MailServer>(std::move(mailbox), config);
}

}  // namespace chorus::inline transport_mailbox
