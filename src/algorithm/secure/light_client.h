#pragma once

#include <map>
#include <string>

#include "algorithm/secure/coded_mask.h"
#include "algorithm/secure/pair_keys.h"
#include "algorithm/secure/phased_sum.h"

namespace chorus::inline secure {

/// LightSecAgg (So et al. 2022, algorithm 1): every client draws one mask, sends a coded share of it to everybody,
/// and the server needs only the sums of the shares of those who stayed. What it costs does not depend on how many
/// vanish; a client sends N / (U - T) times its input once more.
///
/// SumParameters in this protocol: neighbours is N, everybody invited; colluding is T, who together learn nothing;
/// threshold is U, how many must stay to the end; ring_bits 32 or 64 are the fields of 2^31 - 1 and 2^61 - 1. Trust is
/// semi-honest.
std::string light_mistake(const SumParameters& parameters);
MaskCode code_of(const SumParameters& parameters);
/// The context of a session of this protocol; no message of another protocol fits.
Digest light_context(const SumSession& session);
/// Of the public factors of the checksum.
std::uint64_t checksum_seed(const Digest& context);
/// N clients of which a share may collude and another may vanish; at least two pieces of a mask are kept where N
/// allows.
SumParameters light_parameters(std::size_t clients, double corrupt, double dropout);

/// The client: a state machine over messages. Phases:
///   1  public key                                     ->  keys of everybody
///   2  coded shares of its mask, sealed for each      ->  shares of the others
///   3  input + mask                                   ->  who stayed
///   4  the sum of the shares of those who stayed
/// It answers one list of survivors only, and only when it holds a share of each of them: two lists would give the mask
/// of the difference.
class LightClient : public PhasedClient {
 public:
  /// `input`: two's complement integers, absolute values (also of the sum) below half the prime.
  LightClient(SumSession session, ClientId self, RingVector input);
  ~LightClient() override { wipe_secrets(); }
  LightClient(LightClient&&) = default;
  LightClient& operator=(LightClient&&) = default;

 private:
  Bytes meet_keys(ByteView message) override;
  Bytes mask_input(ByteView message) override;
  Bytes meet_survivors(ByteView message) override;
  void wipe_secrets() final;
  std::size_t place_of(ClientId client) const;

  MaskCode code_;
  RingVector input_;  // in the field, checksum included; after mask_input empty
  RingVector pieces_;
  AgreementKeys sealing_;
  std::map<ClientId, RingVector> held_;  // shares, the own one included
};

/// Sealed shares of `words` bytes each, which both sides know from the parameters.
Bytes write_coded(const MessageHead& head, const std::vector<SealedShare>& shares);
std::optional<std::vector<SealedShare>> read_coded(ByteView bytes, std::size_t words);

}  // namespace chorus::inline secure
