#include "infrastructure/transport/inproc/inproc.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "core/base/error.h"

namespace chorus::inline transport_inproc {

/// State shared by both ends.
struct InprocTransport::Hub {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TransportEvent> to_server;
  std::size_t frames_to_server = 0;
  std::map<PeerId, std::deque<std::shared_ptr<const FrameBytes>>> to_client;  // by connected peer
  PeerId last_peer = 0;
  bool listening = false, closed = false;  // closed: the server is gone
};

namespace {

using Hub = InprocTransport::Hub;

// Waits for `ready` or the timeout.
template <typename Ready>
bool wait(std::unique_lock<std::mutex>& lock, Hub& hub, std::optional<double> seconds, Ready ready) {
  if (!seconds) {
    hub.changed.wait(lock, ready);
    return true;
  }
  return hub.changed.wait_for(lock, std::chrono::duration<double>(*seconds), ready);
}

class InprocServer : public ServerTransport {
 public:
  explicit InprocServer(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  ~InprocServer() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->closed = true;
    hub_->changed.notify_all();
  }

  bool send(PeerId peer, std::shared_ptr<const FrameBytes> frame, bool /*more*/) override {
    const std::lock_guard lock(hub_->mutex);
    const auto found = hub_->to_client.find(peer);
    if (found == hub_->to_client.end()) return false;
    found->second.push_back(std::move(frame));
    hub_->changed.notify_all();
    return true;
  }

  std::optional<TransportEvent> receive(std::optional<double> seconds) override {
    std::unique_lock lock(hub_->mutex);
    if (!wait(lock, *hub_, seconds, [&] { return !hub_->to_server.empty(); })) return std::nullopt;
    TransportEvent event = std::move(hub_->to_server.front());
    hub_->to_server.pop_front();
    if (event.kind == TransportEvent::Kind::kFrame) --hub_->frames_to_server;
    hub_->changed.notify_all();
    return event;
  }

 private:
  std::shared_ptr<Hub> hub_;
};

class InprocClient : public ClientTransport {
 public:
  InprocClient(std::shared_ptr<Hub> hub, std::string identity) : hub_(std::move(hub)) {
    const std::lock_guard lock(hub_->mutex);
    peer_ = ++hub_->last_peer;
    hub_->to_client[peer_];
    hub_->to_server.push_back({TransportEvent::Kind::kJoined, peer_, {}, std::move(identity)});
    hub_->changed.notify_all();
  }
  ~InprocClient() override {
    const std::lock_guard lock(hub_->mutex);
    hub_->to_client.erase(peer_);
    hub_->to_server.push_back({TransportEvent::Kind::kLeft, peer_, {}});
    hub_->changed.notify_all();
  }

  bool send(FrameBytes frame) override {
    std::string bytes = frame.flat();
    std::unique_lock lock(hub_->mutex);
    hub_->changed.wait(lock, [&] { return hub_->closed || hub_->frames_to_server < InprocTransport::kMostWaiting; });
    if (hub_->closed) return false;
    hub_->to_server.push_back({TransportEvent::Kind::kFrame, peer_, std::move(bytes)});
    ++hub_->frames_to_server;
    hub_->changed.notify_all();
    return true;
  }

  std::optional<std::string> receive(std::optional<double> seconds) override {
    std::unique_lock lock(hub_->mutex);
    auto& inbox = hub_->to_client.at(peer_);
    if (!wait(lock, *hub_, seconds, [&] { return !inbox.empty() || hub_->closed; }) || inbox.empty()) {
      return std::nullopt;
    }
    const std::shared_ptr<const FrameBytes> frame = std::move(inbox.front());
    inbox.pop_front();
    lock.unlock();
    return frame->flat();
  }

  bool connected() const override {
    const std::lock_guard lock(hub_->mutex);
    return !hub_->closed || !hub_->to_client.at(peer_).empty();
  }

 private:
  std::shared_ptr<Hub> hub_;
  PeerId peer_ = 0;
};

const Registration<Transports> kRegisteredInproc{"inproc", "bytes through queues of this process",
                                                 [] { return std::make_unique<InprocTransport>(); }};

}  // namespace

InprocTransport::InprocTransport() : hub_(std::make_shared<Hub>()) {}

std::unique_ptr<ServerTransport> InprocTransport::listen() {
  const std::lock_guard lock(hub_->mutex);
  check(!hub_->listening, "an in-process transport has one server");
  hub_->listening = true;
  return std::make_unique<InprocServer>(hub_);
}

std::unique_ptr<ClientTransport> InprocTransport::connect_as(const std::string& identity) {
  return std::make_unique<InprocClient>(hub_, identity);
}

}  // namespace chorus::inline transport_inproc
