#pragma once

#include "core/ports/transport.h"

namespace chorus {

/// A transport without a network: every request and reply becomes the bytes of the wire, and comes back from them, so
/// what is counted is what would be sent. For tests of everything that a real transport will do with messages, and for
/// simulations that want exact traffic. Bytes that cannot be read are an InternalError: nobody else wrote them.
class InprocFederation : public TransportedFederation {
 public:
  explicit InprocFederation(Federation& far_end) : far_end_(far_end) {}

  std::span<const double> sizes() const override { return far_end_.sizes(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  Traffic traffic() const override { return traffic_; }

 private:
  Federation& far_end_;
  Traffic traffic_;
};

}  // namespace chorus
