#pragma once

#include <span>

#include "core/ports/procedure.h"

namespace chorus {

/// What stands on a client's side between its procedures and the way to the server: filters. The server's side of the
/// same thing is a Federation around another. Thread-safe.
class ClientGate {
 public:
  virtual ~ClientGate() = default;
  /// A request as it arrived becomes what procedures read. DataError: it cannot be read.
  virtual Request open(Request request) const = 0;
  /// Answers, one for each of bench.clients(), become what is sent; one that cannot be sent gets a failure. `request`
  /// is what `open` gave.
  virtual void close(const Request& request, Workbench& bench, std::span<Answer> answers) const = 0;
};

}  // namespace chorus
