#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/client_id.h"
#include "core/base/cost.h"
#include "core/ports/message.h"

namespace chorus {

/// Runs a named procedure (core/ports/procedure.h) on every client of a cohort.
struct Request {
  std::string procedure;
  std::uint64_t round = 0;
  Message body = {};
};

/// What one client answered, or why it did not.
struct Reply {
  ClientId client = 0;
  std::size_t slot = 0;  ///< its place in the cohort that was asked
  Message body = {};
  std::string failure = {};  ///< empty: it answered
  Cost cost = {};            ///< on the client's device, where devices are emulated
  bool left_out = false;     ///< it failed because the emulation says so: late, vanished, not among the first
  /// A tensor of the body that this very process has seen to have finite numbers only; what came from elsewhere has
  /// none.
  std::string finite = {};

  bool ok() const { return failure.empty(); }
};

/// The answers of a cohort, one each, in the order they arrive, which is no particular one. Read once; a client is only
/// put to work while somebody reads, so few answers are held at a time.
class Replies {
 public:
  using Next = std::function<std::optional<Reply>()>;

  explicit Replies(Next next) : next_(std::move(next)) {}

  std::optional<Reply> next() { return next_(); }

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
};

/// Bytes of all requests and replies so far.
struct Traffic {
  std::uint64_t down = 0;  ///< to the clients
  std::uint64_t up = 0;    ///< from them
};

/// Who can be asked. The one verb of every algorithm; nothing in it tells whether the clients are rows of a tensor in
/// this process or hospitals.
///
///     for (Reply& reply : federation.ask(cohort, {.procedure = "train", .round = r, .body = body})) sum.add(reply);
///
/// One `ask` at a time; its answers must be read (or dropped) before the next.
class Federation {
 public:
  virtual ~Federation() = default;

  /// How many training examples each client has; their number is the number of clients.
  virtual std::span<const double> sizes() const = 0;
  std::size_t clients() const { return sizes().size(); }

  /// InternalError when the cohort names a client twice or one that does not exist.
  virtual Replies ask(std::span<const ClientId> cohort, Request request) = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace chorus
