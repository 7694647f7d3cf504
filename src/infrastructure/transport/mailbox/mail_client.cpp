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
#include "infrastructure/transport/mailbox/mailbox.h"
#include "infrastructure/transport/mailbox/post.h"

namespace chorus::inline transport_mailbox {
namespace {

using MailClock = std::chrono::steady_clock;

constexpr std::size_t kMostFramesUnread = 16;  // by the server
constexpr std::size_t kMostBytesUnread = 4U << 20U;
constexpr auto kKnockPause = std::chrono::milliseconds(500);  // between two attempts to join

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
    if (frame.size() > config_.frame_limit) throw WorldError("a frame is over the transport's limit");
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
    std::string data;
    do {
      data.resize(std::min(config_.chunk, frame.size() - post.offset));
      frame.read(post.offset, data);
      mailbox_->post(mailbox_->server(), encode_post(post, data));
      post.offset += data.size();
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

 private:
  // Until the server has answered: it may not be there yet.
  void knock() {
    const auto begin = MailClock::now();
    std::unique_lock lock(mutex_);
    while (!opened_ && !ended_) {
      lock.unlock();
      mailbox_->post(mailbox_->server(), encode_post({Post::Kind::kOpen, session_}));
      lock.lock();
      changed_.wait_for(lock, kKnockPause, [&] { return opened_ || ended_; });
      const double waited = std::chrono::duration<double>(MailClock::now() - begin).count();
      if (!opened_ && config_.patience > 0 && waited > config_.patience) {
        Log("transport").error("the server could not be reached for {:.0f} s", waited);
        ended_ = true;
        changed_.notify_all();
      }
    }
  }

  // On the mailbox's thread.
  void handle(const Letter& letter) {
    std::string_view data;
    const auto post = decode_post(letter.bytes, data);
    if (!post.ok()) return;
    const bool to_all = post.value().session == kEverySession && post.value().kind == Post::Kind::kBye;
    if (post.value().session != session_ && !to_all) return;  // of an earlier connection
    const std::lock_guard lock(mutex_);
    switch (post.value().kind) {
      case Post::Kind::kOpened:
        opened_ = true;
        break;
      case Post::Kind::kAck:
        while (read_ < post.value().sequence && !unread_.empty()) {
          unread_bytes_ -= unread_.front();
          unread_.pop_front();
          ++read_;
        }
        break;
      case Post::Kind::kChunk: {
        opened_ = true;
        auto frame = gatherer_.add(post.value(), data);
        if (!frame.ok()) {
          Log("transport").error("the server cannot be understood: {}", frame.failure().message);
          ended_ = true;
        } else if (frame.value()) {
          inbox_.push_back(std::move(*frame.value()));
        }
        break;
      }
      case Post::Kind::kBye:
        ended_ = true;
        break;
      default:
        break;
    }
    changed_.notify_all();
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
  bool opened_ = false, ended_ = false;
  std::unique_ptr<Mailbox> mailbox_;  // its thread uses what is above
  std::thread knocker_;
};

}  // namespace

std::uint64_t new_session() {
  std::random_device entropy;
  return (static_cast<std::uint64_t>(entropy()) << 32U) | entropy() | 1U;
}

std::string farewell(std::uint64_t session) { return encode_post({Post::Kind::kBye, session}); }

std::unique_ptr<ClientTransport> make_mail_client(std::unique_ptr<Mailbox> mailbox, const MailConfig& config,
                                                  std::uint64_t session) {
  return std::make_unique<MailClient>(std::move(mailbox), config, session);
}

std::unique_ptr<ClientTransport> make_mail_client(std::unique_ptr<Mailbox> mailbox, const MailConfig& config) {
  return make_mail_client(std::move(mailbox), config, new_session());
}

}  // namespace chorus::inline transport_mailbox
