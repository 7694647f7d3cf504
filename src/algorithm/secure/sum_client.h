#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "algorithm/secure/pair_keys.h"
#include "algorithm/secure/phased_sum.h"

namespace chorus::inline secure {

/// The client of SecAgg (Bonawitz et al. 2017) and SecAgg+ (Bell et al. 2020): a state machine over messages, without a
/// network or a clock. Its masked input is
///     y_u = x_u + PRG(b_u) + sum_{v in N(u), v > u} PRG(s_uv) - sum_{v in N(u), v < u} PRG(s_uv)      mod 2^bits
/// where N(u) are its neighbours that shared keys. The seeds b_u and that of u's masking key are shared among N(u), t
/// of which can reconstruct them: b_u when u's input arrived, the masking key when it did not, never both.
///
///     SumClient client(session, id, identity, input);
///     send(client.advertise());
///     while (client.state() != SumClient::State::kDone) {
///       Result<Bytes> reply = client.receive(message);       // a failure: nothing is sent
///       if (reply) send(reply.value());
///     }
///
/// What the server sends is not trusted (phased_sum.h). Shares that cannot be unsealed are missing, and nothing says
/// why.
class SumClient : public PhasedClient {
 public:
  /// ConfigError for unsafe parameters. `identity` signs with an active server; null otherwise. `input` has the ring
  /// and the length of the parameters.
  SumClient(SumSession session, ClientId self, const Secret<64>* identity, RingVector input);
  ~SumClient() override { wipe_secrets(); }
  SumClient(const SumClient&) = delete;
  SumClient& operator=(const SumClient&) = delete;

 private:
  Bytes meet_keys(ByteView message) override;
  Bytes mask_input(ByteView message) override;
  Bytes meet_survivors(ByteView message) override;
  Bytes check_signatures(ByteView message) override;
  Bytes reveal() const;
  void check_keys() const;
  void wipe_secrets() final;
  MessageHead head(MessageType type) const;

  const Secret<64>* identity_;
  RingVector input_;
  AgreementKeys sealing_, masking_;
  Key own_seed_, masking_seed_;
  std::vector<ClientId> neighbours_;
  struct HeldShares {
    Share own_mask, masking_key;
  };
  std::set<ClientId> sharing_;           // neighbours that sent shares, readable or not
  std::map<ClientId, HeldShares> held_;  // those that were readable
  std::vector<ClientId> survivors_;
};

}  // namespace chorus::inline secure
