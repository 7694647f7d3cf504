#pragma once

#include <memory>
#include <string>

#include "core/ports/transport.h"

namespace chorus::inline transport_inproc {

/// A transport without a network: frames go through queues in this process. For testing servers and clients at the
/// level of bytes, and for simulations that need exact traffic. A client blocks while kMostWaiting frames of all
/// clients are unread; a server never blocks.
class InprocTransport : public Transport {
 public:
  static constexpr std::size_t kMostWaiting = 16;

  InprocTransport();
  std::unique_ptr<ServerTransport> listen() override;
  std::unique_ptr<ClientTransport> connect() override { return connect_as(""); }
  /// A client with an identity, like the one a network transport takes from its certificate.
  std::unique_ptr<ClientTransport> connect_as(const std::string& identity);

  struct Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace chorus::inline transport_inproc
