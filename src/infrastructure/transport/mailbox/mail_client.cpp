#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/console/terminal.h"
#include "infrastructure/transport/mailbox/mail_peer.h"
#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mailbox/post.h"
#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_mailbox {
namespace {

using MailClock = std::chrono::steady_clock;

constexpr double kKnockPause = 0.5, kLongestPause = 10;  // seconds between two attempts to join
constexpr double kAskPause = 2;                          // between two questions whether there is room
constexpr double kSilence = 30;                          // between two log lines about the same trouble
constexpr std::size_t kMostReason = 300;                 // characters

std::chrono::duration<double> for_seconds(double seconds) { return std::chrono::duration<double>(seconds); }

class MailClient final : public ClientTransport {
 public:
  MailClient(std::unique_ptr<Mailbox> mailbox, const MailConfig& config, std::uint64_t session)
      : config_(config), session_(session), gatherer_(config.frame_limit), mailbox_(std::move(mailbox)) {
    mailbox_->open([this](Letter letter) { handle(letter); });
    knocker_ = std::thread([this] { knock(); });
  }
  ~MailClient() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    knocker_.join();
    mailbox_->post(mailbox_->server(), farewell(session_));
    // Not mailbox_.reset(), which clears the pointer while letters may still be handled.
  }

  bool send(FrameBytes frame) override {
    if (frame.size() > config_.frame_limit) throw WorldError(over_limit(frame.size(), config_.frame_limit));
    const std::lock_guard turn(sending_);
    std::uint64_t sequence = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return ended_ || (opened_ && unread_.size() < kMostFramesUnread && unread_bytes_ < kMostBytesUnread);
      });
      if (ended_) return false;
      sequence = ++sent_;
      unread_.push_back(frame.size());
      unread_bytes_ += frame.size();
    }
    Post post{Post::Kind::kChunk, session_, sequence, frame.size(), 0};
    post.checks_data = config_.checks_data;
    std::string data;
    do {
      data.resize(std::min(config_.chunk, frame.size() - post.offset));
      frame.read(post.offset, data);
      mailbox_->post(mailbox_->server(), encode_post(post, data));
      const bool first = post.offset == 0;
      post.offset += data.size();
      if (first && post.offset < frame.size() && !may_go_on(sequence)) return false;
    } while (post.offset < frame.size());
    return true;
  }

  std::optional<std::string> receive(std::optional<double> seconds) override {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !inbox_.empty() || ended_; };
    if (!seconds) {
      changed_.wait(lock, ready);
    } else if (!changed_.wait_for(lock, std::chrono::duration<double>(*seconds), ready)) {
      return std::nullopt;
    }
    if (inbox_.empty()) return std::nullopt;
    std::string frame = std::move(inbox_.front());
    inbox_.pop_front();
    return frame;
  }

  bool connected() const override {
    const std::lock_guard lock(mutex_);
    return !ended_ || !inbox_.empty();
  }
  std::string refusal() const override {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  // Waits until the server has room for the rest of a frame. False: it is gone.
  bool may_go_on(std::uint64_t sequence) {
    std::unique_lock lock(mutex_);
    heard_ = MailClock::now();
    while (!changed_.wait_for(lock, for_seconds(kAskPause), [&] { return ended_ || room_for_ >= sequence; })) {
      if (config_.patience > 0 && MailClock::now() - heard_ > for_seconds(config_.patience)) {
        end("it does not answer any more");
        break;
      }
      lock.unlock();
      mailbox_->post(mailbox_->server(), encode_post({Post::Kind::kOpen, session_, sequence}));
      lock.lock();
    }
    return !ended_;
  }

  // Until the server has answered: it may not be there yet, or not take this client yet.
  void knock() {
    const auto begin = MailClock::now();
    std::unique_lock lock(mutex_);
    while (!opened_ && !ended_) {
      lock.unlock();
      mailbox_->post(mailbox_->server(), encode_post({Post::Kind::kOpen, session_}));
      lock.lock();
      changed_.wait_for(lock, for_seconds(knock_pause_), [&] { return opened_ || ended_; });
      const double waited = std::chrono::duration<double>(MailClock::now() - begin).count();
      if (!opened_ && !ended_ && config_.patience > 0 && waited > config_.patience) {
        end(fmt::format("it could not be reached for {:.0f} s", waited));
      }
    }
  }

  void end(const std::string& why) {
    if (!ended_ && !why.empty()) Log("transport").error("the connection to the server has ended: {}", why);
    ended_ = true;
    changed_.notify_all();
  }
  void refuse(const std::string& why) {
    if (!ended_) Log("transport").error("the server refuses this client: {}", why);
    refusal_ = why;
    end("");
  }

  // On the mailbox's thread.
  void handle(const Letter& letter) {
    std::string_view data;
    const auto decoded = decode_post(letter.bytes, data);
    if (!decoded.ok()) return;
    const Post& post = decoded.value();
    const bool to_all = post.session == kEverySession && post.kind == Post::Kind::kBye;
    if (post.session != session_ && !to_all) return;  // of an earlier connection
    const std::lock_guard lock(mutex_);
    heard_ = MailClock::now();
    if (post.version != kPostVersion) {
      refuse(other_version(kPostVersion, post.version));
    } else if (post.kind == Post::Kind::kOpened) {
      opened_ = true;
      mailbox_->answered();
    } else if (post.kind == Post::Kind::kGo) {
      room_for_ = std::max(room_for_, post.sequence);
    } else if (post.kind == Post::Kind::kAck) {
      for (; read_ < post.sequence && !unread_.empty(); ++read_) {
        unread_bytes_ -= unread_.front();
        unread_.pop_front();
      }
    } else if (post.kind == Post::Kind::kBye) {
      part(static_cast<Verdict>(post.sequence), shortened(printable(data), kMostReason));
    } else if (post.kind == Post::Kind::kChunk) {
      opened_ = true;
      auto frame = gatherer_.add(post, data);
      if (!frame.ok()) {
        end("it cannot be understood: " + frame.failure().message);
      } else if (frame.value()) {
        inbox_.push_back(std::move(*frame.value()));
      }
    }
    changed_.notify_all();
  }

  void part(Verdict verdict, const std::string& why) {
    if (verdict == Verdict::kRefused) {
      refuse(why);
    } else if (verdict == Verdict::kLater && !opened_) {
      const auto now = MailClock::now();
      if (!complained_ || now - *complained_ > for_seconds(kSilence)) {
        Log("transport").warning("the server does not accept this client, trying again: {}", why);
        complained_ = now;
      }
      knock_pause_ = std::min(knock_pause_ * 1.6, kLongestPause);
    } else {
      end(why);
    }
  }

  const MailConfig config_;
  const std::uint64_t session_;
  std::mutex sending_;  // frames go out one after the other
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FrameGatherer gatherer_;
  std::deque<std::string> inbox_;
  std::deque<std::size_t> unread_;  // sizes of frames that the server has not read
  std::size_t unread_bytes_ = 0;
  std::uint64_t sent_ = 0, read_ = 0;
  std::uint64_t room_for_ = 0;  // the last large frame that may go on
  bool opened_ = false, ended_ = false;
  std::string refusal_;
  double knock_pause_ = kKnockPause;
  MailClock::time_point heard_ = MailClock::now();
  std::optional<MailClock::time_point> complained_;
  std::unique_ptr<Mailbox> mailbox_;  // its thread uses what is above
  std::thread knocker_;
};

}  // namespace

std::uint64_t new_session() {
  std::random_device entropy;
  return (static_cast<std::uint64_t>(entropy()) << 32U) | entropy() | 1U;
}

std::string farewell(std::uint64_t session) { return encode_bye(session, Verdict::kOver); }

std::unique_ptr<ClientTransport> make_mail_client(std::unique_ptr<Mailbox> mailbox, const MailConfig& config,
                                                  std::uint64_t session) {
  return std::make_unique<MailClient>(std::move(mailbox), config, session);
}

std::unique_ptr<ClientTransport> make_mail_client(std::unique_ptr<Mailbox> mailbox, const MailConfig& config) {
  return make_mail_client(std::move(mailbox), config, new_session());
}

}  // namespace chorus::inline transport_mailbox
