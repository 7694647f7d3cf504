#pragma once

#include <map>
#include <set>
#include <string>

#include "algorithm/secure/light_client.h"

namespace chorus::inline secure {

/// The server of LightSecAgg (light_client.h): a state machine over messages. It relays coded shares that it cannot
/// read, adds masked inputs as they arrive, and decodes the sum of the masks from U sums of shares. A sum whose
/// checksum is wrong is abandoned.
class LightServer : public SumHost {
 public:
  enum class Phase { kAdvertise, kShare, kMask, kUnmask, kDone, kAborted };

  explicit LightServer(SumSession session);

  Result<Accepted> receive(ClientId from, ByteView message) override;
  Result<Outgoing> close() override;
  bool done() const override { return phase_ == Phase::kDone; }
  const std::vector<ClientId>& survivors() const override { return survivors_; }
  const RingVector& sum() const override;
  Phase phase() const { return phase_; }

 private:
  std::string accept_keys(ClientId from, ByteView message);
  std::string accept_shares(ClientId from, ByteView message);
  std::string accept_input(ClientId from, ByteView message);
  std::string accept_sum_of_shares(ClientId from, ByteView message);
  std::optional<RingVector> field_vector(ByteView message, std::size_t size) const;
  Result<Outgoing> send_keys();
  Result<Outgoing> forward_shares();
  Result<Outgoing> send_survivors();
  Result<Outgoing> finish();
  Failure aborted(std::string reason);
  Outgoing to_asked(Bytes message) const;

  SumSession session_;
  Digest context_, id_{};
  MaskCode code_;
  Phase phase_ = Phase::kAdvertise;
  Fingerprints fingerprints_;
  std::map<ClientId, Fingerprints::Value> received_;
  std::map<ClientId, Advertisement> advertised_;
  std::map<ClientId, std::vector<SealedShare>> sealed_;  // by who receives them
  std::set<ClientId> sharing_, asked_;
  RingVector sum_;
  std::vector<ClientId> survivors_;
  std::map<ClientId, RingVector> sums_of_shares_;
  Key probe_;
};

}  // namespace chorus::inline secure
