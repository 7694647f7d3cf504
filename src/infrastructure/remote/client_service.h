#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/ports/federation.h"
#include "core/ports/transport.h"
#include "infrastructure/transport/wire/wire.h"

namespace chorus::inline remote {

/// Who else looks at what a client process sends and gets, and what it says of itself.
struct ClientServiceHooks {
  /// The server sent what is not about requests.
  std::function<void(const ControlFrame&)> control = {};
  /// Before clients of this process are asked; an exception fails them.
  std::function<void(const CohortFrame&)> asked = {};
  /// Why a reply of so many bytes may not leave, as one sentence for the server, which gets that instead; empty: it
  /// may.
  std::function<std::string(std::size_t bytes)> withheld = {};
  /// Before a frame leaves; an exception keeps it here and ends the service.
  std::function<void(const Frame&, const FrameBytes& bytes)> sending = {};
  std::function<bool()> stop = {};  ///< true: leave
  /// Whether the introduction states numbers of examples; if not, only clients without examples are named as such.
  bool states_sizes = true;
};

/// What a server may let a client process hold: frames that wait until clients have finished, requests whose cohort has
/// not come yet, states of replies that were neither accepted nor forgotten, and sessions that have not ended.
struct ClientServiceLimits {
  std::size_t frames = 65536;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
};

/// The clients' half: hosts the clients of one process and does what a server asks of them.
///
///     ClientService(transport, clients).run();        // until the server is gone
///
/// A client keeps the state of a reply when the server accepts it, and forgets it when a later round asks first.
/// A server that sends more than the limits allow is left, and told so in one sentence. A failure of any kind becomes a
/// failed reply; the service goes on. A request that is cancelled before its turn is skipped; one whose clients work is
/// stopped and gets no more replies, and so is one whose server is gone. Sessions end with it: a server that was
/// restarted counts them from 1 again.
class ClientService {
 public:
  /// Both are borrowed.
  ClientService(ClientTransport& transport, Federation& clients, ClientServiceHooks hooks = {},
                ClientServiceLimits limits = {})
      : transport_(transport), clients_(clients), hooks_(std::move(hooks)), limits_(limits) {}

  /// Returns when the server is gone, or sends what is no frame.
  void run();

 private:
  struct Held {
    Request request;
    std::size_t bytes = 0;
  };
  struct Pending {
    std::uint64_t round = 0;
    std::function<void()> keep;
  };

  void serve();
  void handle(Frame frame, std::size_t bytes);
  /// Whether a frame of so many bytes can be held; if not, this service ends.
  bool has_room(std::size_t bytes);
  void begin_round(std::uint64_t round);
  /// Forgets a request, whether its clients work or it still waits.
  void cancel(std::uint64_t number);
  void answer(const CohortFrame& cohort);
  /// Of the request whose clients are asked. Nothing: there are no more, or nobody waits for them.
  std::optional<Reply> next_reply(Replies& replies, std::uint64_t number);
  /// Whether a frame ends a session of which no request has come.
  bool ends_nothing(const Frame& frame) const;
  /// Handles what may arrive while clients work, until nothing comes for so many seconds; the rest waits.
  void handle_control(double patience);
  bool send(std::uint64_t number, std::uint64_t round, Reply reply);
  bool send(const Frame& frame);
  bool send(const Frame& frame, FrameBytes bytes);

  ClientTransport& transport_;
  Federation& clients_;
  ClientServiceHooks hooks_;
  ClientServiceLimits limits_;
  std::map<std::uint64_t, Held> open_;                                // by number; of the newest round
  std::map<std::pair<std::uint64_t, std::size_t>, Pending> pending_;  // by number and slot
  std::set<std::uint64_t> sessions_;                                  // that have begun
  std::deque<std::pair<Frame, std::size_t>> later_;                   // with their bytes
  std::size_t held_ = 0;                                              // bytes of open requests and later frames
  std::uint64_t running_ = 0;                                         // whose clients are asked; 0: it was cancelled
  bool broken_ = false;
};

}  // namespace chorus::inline remote
