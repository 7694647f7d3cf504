#pragma once

#include <memory>
#include <string>

#include "core/ports/transport.h"

namespace chorus::inline transport_inproc {

/// A transport without a network: frames go through queues in this process. For tests of everything that servers and
/// clients do with bytes, and for simulations that want exact traffic. A client waits while kMostWaiting frames of all
/// clients are unread; a server never waits.
class InprocTransport : public Transport {
 public:
  static constexpr std::size_t kMostWaiting = 16;

  InprocTransport();
  std::unique_ptr<ServerTransport> listen() override;
  std::unique_ptr<ClientTransport> connect() override { return connect_as(""); }
  /// A client that the server knows by a name, as a network transport knows it by its certificate.
  std::unique_ptr<ClientTransport> connect_as(const std::string& identity);

  struct Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace chorus::inline transport_inproc
