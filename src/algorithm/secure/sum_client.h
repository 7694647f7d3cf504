#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "algorithm/secure/pair_keys.h"
#include "algorithm/secure/ring_vector.h"
#include "algorithm/secure/session.h"
#include "algorithm/secure/sum_party.h"

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
/// What the server sends is not trusted. A message that cannot be read, or belongs to another session, client or state,
/// is refused and changes nothing. One that is read and is wrong (an unknown survivor, a second list of survivors, a
/// bad signature) aborts: all secrets are wiped and nothing is answered any more. The same bytes once more get the same
/// reply. Shares that cannot be unsealed are missing, and nothing says why.
class SumClient : public SumParty {
 public:
  enum class State { kAdvertised, kShared, kMasked, kSigned, kDone, kAborted };

  /// ConfigError for unsafe parameters. `identity` signs with an active server; null otherwise. `input` has the ring
  /// and the length of the parameters.
  SumClient(SumSession session, ClientId self, const Secret<64>* identity, RingVector input);

  const Bytes& advertise() const override { return last_reply_; }
  Result<Bytes> receive(ByteView message) override;

  State state() const { return state_; }
  const std::string& abort_reason() const { return abort_reason_; }

 private:
  Bytes share_keys(ByteView message);
  Bytes mask_input(ByteView message);
  Bytes meet_survivors(ByteView message);
  Bytes check_signatures(ByteView message);
  Bytes reveal() const;
  void check_keys() const;
  void become_done();
  void wipe_secrets();
  MessageHead head(MessageType type) const;
  const Advertisement& keys_of(ClientId client) const;

  SumSession session_;
  ClientId self_;
  const Secret<64>* identity_;
  Digest context_;
  RingVector input_;
  State state_ = State::kAdvertised;
  std::string abort_reason_;
  Fingerprints fingerprints_;
  Fingerprints::Value last_message_{};  // that last_reply_ answers
  Bytes last_reply_;

  AgreementKeys sealing_, masking_;
  Key own_seed_, masking_seed_;
  std::vector<Advertisement> keys_;  // of everybody, ascending
  Digest id_{};
  std::vector<ClientId> neighbours_;
  struct HeldShares {
    Share own_mask, masking_key;
  };
  std::set<ClientId> sharing_;           // neighbours that sent shares, readable or not
  std::map<ClientId, HeldShares> held_;  // those that were readable
  std::vector<ClientId> survivors_;
};

}  // namespace chorus::inline secure
