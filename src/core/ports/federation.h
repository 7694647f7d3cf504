#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/client_id.h"
#include "core/base/cost.h"
#include "core/base/error.h"
#include "core/ports/message.h"
#include "core/ports/roster.h"

namespace chorus::inline ports {

/// Asks every client of a cohort to run a named procedure (core/ports/procedure.h).
struct Request {
  std::string procedure;
  std::uint64_t round = 0;
  Message body = {};                    ///< for all clients; a transport encodes it once
  std::vector<Message> own = {};        ///< empty, or one more message per client, in the order of the cohort
  std::uint64_t ask = 0;                ///< earlier asks of this round; filters key their draws by it
  std::uint64_t session = 0;            ///< of a Session; 0: clients keep nothing but their state
  std::size_t enough = 0;               ///< stop waiting after this many replies; 0: wait for all (over-selection)
  std::optional<double> deadline = {};  ///< stop waiting after this many seconds
  /// Its replies are read while later requests are under way (Federation::real_time), so it has no quorum, and nothing
  /// waits until a client confirms that it kept its state.
  bool background = false;
  std::uint64_t run = 0;     ///< fingerprint of the run; 0: not stated. A client takes part in one run at a time
  std::uint64_t layout = 0;  ///< fingerprint of the trainable layout; a client with another one refuses. 0: not stated

  /// The own message of slot or client i, or an empty one.
  const Message& own_of(std::size_t i) const;
};

/// What one client replied, or why it did not.
struct Reply {
  ClientId client = 0;
  std::size_t slot = 0;  ///< index in the cohort that was asked
  Message body = {};
  std::string failure = {};  ///< empty: it replied
  Cost cost = {};            ///< on the emulated device
  bool left_out = false;     ///< the emulation left it out: late, vanished or surplus
  /// Name of a tensor in the body that this process has already checked to be finite; empty: none.
  std::string finite = {};
  std::uint64_t bytes_down = 0, bytes_up = 0;  ///< of request and reply, on the wire
  double seconds = 0;                          ///< real time between asking and the reply

  bool ok() const { return failure.empty(); }
  /// Tells the client that its reply is used: only then does it keep the new state (control variates, error feedback).
  /// A late, invalid or surplus reply is never accepted, and its client continues as if it had not been asked.
  void accept() const {
    if (on_accept) on_accept();
  }
  std::function<void()> on_accept = {};
};

/// The replies of a cohort, one per client, in order of arrival. Can be read once; clients work only while replies are
/// read, so few are held at a time. May outlive the federation.
class Replies {
 public:
  using Next = std::function<std::optional<Reply>()>;
  using Ready = std::function<bool()>;

  explicit Replies(Next next, Ready ready = {}) : next_(std::move(next)), ready_(std::move(ready)) {}

  std::optional<Reply> next() { return next_(); }
  /// Whether `next` answers without waiting; if not, Federation::wait waits for it.
  bool ready() const { return !ready_ || ready_(); }

  class Iterator {
   public:
    explicit Iterator(Replies* replies) : replies_(replies) { ++*this; }
    Reply& operator*() { return *current_; }
    Iterator& operator++() {
      current_ = replies_->next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return !current_.has_value(); }

   private:
    Replies* replies_;
    std::optional<Reply> current_;
  };

  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Next next_;
  Ready ready_;
};

/// Too few clients replied, so the round has to be repeated; no client keeps what it learnt in it.
class TooFewReplies : public WorldError {
 public:
  using WorldError::WorldError;
};

/// Total bytes of requests and replies.
struct Traffic {
  std::uint64_t down = 0;  ///< to the clients
  std::uint64_t up = 0;    ///< from them
};

/// The clients of a run and the only way to reach them. An algorithm cannot tell whether they are rows of a tensor in
/// this process or other machines.
///
///     for (Reply& reply : federation.ask(cohort, {.procedure = "train", .round = r, .body = body})) sum.add(reply);
///
/// One `ask` at a time: its replies must be read (or dropped) before the next, but for background requests.
class Federation {
 public:
  virtual ~Federation() = default;

  virtual const Roster& roster() const = 0;

  /// InternalError when the cohort names a client twice or one that is not on the roster.
  virtual Replies ask(std::span<const ClientId> cohort, Request request) = 0;

  /// Clients forget what they kept for the session. Use Session.
  virtual void end_session(std::uint64_t session) = 0;

  virtual Traffic traffic() const = 0;

  /// Clients take real time and work at once, so a server can go on while some of them train: with
  /// Request::background, `wait` and Replies::ready.
  virtual bool real_time() const { return false; }
  /// Handles what arrives for at most so many seconds; returns after the first event, such as a reply.
  virtual void wait(double /*seconds*/) {}
};

/// Several asks to one cohort within a round. A client keeps its workbench, and everything that its procedures put
/// there (values, optimizer, activations), between asks; nothing is copied or rebuilt. Ends with the object.
///
///     Session session(federation);
///     for (int batch = 0; batch < batches; ++batch) {
///       for (Reply& reply : session.ask(cohort, {.procedure = "fedid/step", .round = r})) ...
///     }
///
/// A client that is not asked, or fails, leaves the session; later asks may name only the remaining ones.
class Session {
 public:
  explicit Session(Federation& federation);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { federation_.end_session(id_); }

  std::uint64_t id() const { return id_; }
  Replies ask(std::span<const ClientId> cohort, Request request) {
    request.session = id_;
    return federation_.ask(cohort, std::move(request));
  }

 private:
  Federation& federation_;
  std::uint64_t id_;
};

}  // namespace chorus::inline ports
