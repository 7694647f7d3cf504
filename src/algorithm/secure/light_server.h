#pragma once

#include <map>
#include <set>
#include <string>

#include "algorithm/secure/light_client.h"

namespace chorus::inline secure {

/// The server of LightSecAgg (light_client.h): a state machine over messages. It relays coded shares that it cannot
/// read, adds masked inputs as they arrive, and decodes the sum of the masks from U sums of shares. A sum whose
/// checksum is wrong is abandoned.
class LightServer : public PhasedServer {
 public:
  explicit LightServer(SumSession session);

 private:
  std::string accept_keys(ClientId from, ByteView message) override;
  std::string accept_shares(ClientId from, ByteView message) override;
  std::string accept_input(ClientId from, ByteView message) override;
  std::string accept_unmasking(ClientId from, ByteView message) override;
  std::size_t least_sharing() const override;
  std::size_t least_inputs() const override { return least_sharing(); }
  Bytes write_forwarded(const MessageHead& head, const std::vector<SealedShare>& sealed) const override {
    return write_coded(head, sealed);
  }
  Result<Outgoing> finish() override;
  void wipe_secrets() override { sums_of_shares_.clear(); }
  std::optional<RingVector> field_vector(ByteView message, std::size_t size) const;

  MaskCode code_;
  std::map<ClientId, RingVector> sums_of_shares_;
};

}  // namespace chorus::inline secure
