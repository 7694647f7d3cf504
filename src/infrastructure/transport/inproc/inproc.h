#pragma once

#include <memory>

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
  std::unique_ptr<ClientTransport> connect() override;

  struct Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace chorus::inline transport_inproc
