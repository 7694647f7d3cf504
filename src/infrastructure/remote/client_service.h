#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/ports/federation.h"
#include "core/ports/transport.h"
#include "infrastructure/transport/wire/wire.h"

namespace chorus::inline remote {

/// Who else looks at what a client process sends and gets.
struct ClientServiceHooks {
  /// The server sent what is not about requests.
  std::function<void(const ControlFrame&)> control = {};
  /// Before clients of this process are asked; an exception fails them.
  std::function<void(const CohortFrame&)> asked = {};
  /// Before a frame leaves; an exception keeps it here and ends the service.
  std::function<void(const Frame&, const FrameBytes& bytes)> sending = {};
  std::function<bool()> stop = {};  ///< true: leave
};

/// The clients' half: hosts the clients of one process and does what a server asks of them.
///
///     ClientService(transport, clients).run();        // until the server is gone
///
/// A client keeps the state of a reply when the server accepts it, and forgets it when a later round asks first.
/// A failure of any kind becomes a failed reply; the service goes on. Sessions end with it: a server that was restarted
/// counts them from 1 again.
class ClientService {
 public:
  /// Both are borrowed.
  ClientService(ClientTransport& transport, Federation& clients, ClientServiceHooks hooks = {})
      : transport_(transport), clients_(clients), hooks_(std::move(hooks)) {}

  /// Returns when the server is gone, or sends what is no frame.
  void run();

 private:
  void serve();
  bool handle(Frame frame);
  void answer(const CohortFrame& cohort);
  /// Handles what may arrive while clients work; the rest waits.
  void handle_control();
  bool send(std::uint64_t number, Reply reply);
  bool send(const Frame& frame);

  ClientTransport& transport_;
  Federation& clients_;
  ClientServiceHooks hooks_;
  std::map<std::uint64_t, Request> requests_;                                       // by number; of the newest round
  std::map<std::pair<std::uint64_t, std::size_t>, std::function<void()>> pending_;  // by number and slot
  std::set<std::uint64_t> sessions_;                                                // that have begun
  std::deque<Frame> later_;
  std::uint64_t cancelled_ = 0;  // the newest number that was
  bool broken_ = false;
};

}  // namespace chorus::inline remote
