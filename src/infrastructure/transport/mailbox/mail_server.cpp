#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mailbox/post.h"

namespace chorus::inline transport_mailbox {
namespace {

/// A client as the server's end knows it.
struct MailPeer {
  MailPeer(PeerId its_id, std::string its_address, std::uint64_t its_session, std::size_t limit)
      : id(its_id), address(std::move(its_address)), session(its_session), gatherer(limit) {}
  PeerId id;
  std::string address;
  std::uint64_t session;
  FrameGatherer gatherer;
  std::uint64_t sent = 0;  // frames
  std::mutex sending;      // frames go out one after the other
  bool gone = false;       // guarded by the server's mutex
};

class MailServer final : public ServerTransport {
 public:
  MailServer(std::unique_ptr<Mailbox> mailbox, const MailConfig& config)
      : config_(config), mailbox_(std::move(mailbox)) {
    mailbox_->open([this](Letter letter) { handle(std::move(letter)); });
  }
  ~MailServer() override {
    std::map<PeerId, std::shared_ptr<MailPeer>> peers;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      peers = peers_;
    }
    for (const auto& entry : peers) say(*entry.second, Post::Kind::kBye, 0);
    // Not mailbox_.reset(), which clears the pointer while letters may still be handled.
  }

  bool send(PeerId id, std::shared_ptr<const FrameBytes> frame, bool /*more*/) override {
    if (frame->size() > config_.frame_limit) throw WorldError("a frame is over the transport's limit");
    const std::shared_ptr<MailPeer> peer = find(id);
    if (!peer) return false;
    const std::lock_guard turn(peer->sending);
    Post post{Post::Kind::kChunk, peer->session, ++peer->sent, frame->size(), 0};
    std::string data;
    do {
      data.resize(std::min(config_.chunk, frame->size() - post.offset));
      frame->read(post.offset, data);
      mailbox_->post(peer->address, encode_post(post, data));
      post.offset += data.size();
    } while (post.offset < frame->size());
    return find(id) != nullptr;
  }

  std::optional<TransportEvent> receive(std::optional<double> seconds) override {
    std::shared_ptr<MailPeer> reader;
    TransportEvent event;
    std::uint64_t read = 0;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [&] { return !events_.empty(); };
      if (!seconds) {
        changed_.wait(lock, ready);
      } else if (!changed_.wait_for(lock, std::chrono::duration<double>(*seconds), ready)) {
        return std::nullopt;
      }
      event = std::move(events_.front());
      events_.pop_front();
      const auto found = peers_.find(event.peer);
      if (event.kind != TransportEvent::Kind::kFrame || found == peers_.end()) return event;
      reader = found->second;
      read = ++reads_[event.peer];
    }
    say(*reader, Post::Kind::kAck, read);  // which lets the client send more
    return event;
  }

 private:
  std::shared_ptr<MailPeer> find(PeerId id) const {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(id);
    return found == peers_.end() ? nullptr : found->second;
  }
  void say(const MailPeer& peer, Post::Kind kind, std::uint64_t sequence) const {
    mailbox_->post(peer.address, encode_post({kind, peer.session, sequence}));
  }

  // On the mailbox's thread. Answers are posted without the lock.
  void handle(Letter letter) {
    std::string_view data;
    const auto post = decode_post(letter.bytes, data);
    if (!post.ok()) {
      Log("transport").warning("a letter is dropped: {}", post.failure().message);
      return;
    }
    const auto [kind, sequence] = react(letter, post.value(), data);
    if (kind && !letter.from.empty()) mailbox_->post(letter.from, encode_post({*kind, post.value().session, sequence}));
  }

  std::pair<std::optional<Post::Kind>, std::uint64_t> react(const Letter& letter, const Post& post,
                                                            std::string_view data) {
    const std::lock_guard lock(mutex_);
    if (closing_) return {Post::Kind::kBye, 0};
    if (letter.from.empty()) {  // the mailbox itself has lost its connection
      while (!by_key_.empty()) leave(by_key_.begin()->second, by_key_.begin()->first.first);
      return {};
    }
    const std::pair key(letter.from, post.session);
    auto known = by_key_.find(key);
    if (post.kind == Post::Kind::kOpen) {
      if (known == by_key_.end() && !welcome(letter, post.session)) return {Post::Kind::kBye, 0};
      return {Post::Kind::kOpened, 0};
    }
    if (known == by_key_.end()) {
      // Of an earlier life of this server: it must join anew.
      if (post.kind == Post::Kind::kBye) return {};
      return {Post::Kind::kBye, 0};
    }
    const std::shared_ptr<MailPeer> peer = known->second;
    if (post.kind == Post::Kind::kBye) {
      leave(peer, letter.from);
      return {};
    }
    if (post.kind != Post::Kind::kChunk) return {};
    auto frame = peer->gatherer.add(post, data);
    if (!frame.ok()) {
      Log("transport").warning("a peer is dropped: {}", frame.failure().message);
      leave(peer, letter.from);
      return {Post::Kind::kBye, 0};
    }
    if (frame.value()) {
      events_.push_back({TransportEvent::Kind::kFrame, peer->id, std::move(*frame.value()), {}});
      changed_.notify_all();
    }
    return {};
  }

  // One process at a time has an identity. A process that dies is reported by the system that delivers letters.
  bool welcome(const Letter& letter, std::uint64_t session) {
    const auto other = by_key_.lower_bound({letter.from, 0});
    if (!letter.identity.empty() && other != by_key_.end() && other->first.first == letter.from) {
      Log("transport").warning("{} was refused: another process is connected with its certificate", letter.identity);
      return false;
    }
    auto peer = std::make_shared<MailPeer>(++last_peer_, letter.from, session, config_.frame_limit);
    peers_[peer->id] = peer;
    by_key_[{letter.from, session}] = peer;
    events_.push_back({TransportEvent::Kind::kJoined, peer->id, {}, letter.identity});
    changed_.notify_all();
    return true;
  }

  void leave(std::shared_ptr<MailPeer> peer, const std::string& from) {
    by_key_.erase({from, peer->session});
    peers_.erase(peer->id);
    reads_.erase(peer->id);
    events_.push_back({TransportEvent::Kind::kLeft, peer->id, {}, {}});
    changed_.notify_all();
  }

  const MailConfig config_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TransportEvent> events_;
  std::map<PeerId, std::shared_ptr<MailPeer>> peers_;
  std::map<std::pair<std::string, std::uint64_t>, std::shared_ptr<MailPeer>> by_key_;  // address and session
  std::map<PeerId, std::uint64_t> reads_;                                              // frames that were read
  PeerId last_peer_ = 0;
  bool closing_ = false;
  std::unique_ptr<Mailbox> mailbox_;  // last: its thread uses the rest
};

}  // namespace

std::unique_ptr<ServerTransport> make_mail_server(std::unique_ptr<Mailbox> mailbox, const MailConfig& config) {
  return std::make_unique<MailServer>(std::move(mailbox), config);
}

}  // namespace chorus::inline transport_mailbox
