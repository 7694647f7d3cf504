#pragma once

#include <string>
#include <utility>
#include <variant>

#include "core/base/error.h"

namespace chorus::inline base {

/// Why an external operation failed: a lost peer, a timeout, a malformed message, a full disk.
struct Failure {
  enum class Kind { kTimeout, kDisconnected, kMalformed, kRefused, kIo };
  Kind kind;
  std::string message;
};

/// A value or an external failure. Exceptions never cross a thread or RPC boundary; a Result does.
///
///     Result<Reply> reply = transport.receive();
///     if (!reply) return reply.failure();
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  Result(Failure failure) : state_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return std::get<T>(state_); }
  T& value() & { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  const Failure& failure() const { return std::get<Failure>(state_); }

  /// The value, or a WorldError with the failure's message: for the top of a program, where no caller can recover.
  T value_or_throw() && {
    if (!ok()) throw WorldError(failure().message);
    return std::get<T>(std::move(state_));
  }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace chorus::inline base
