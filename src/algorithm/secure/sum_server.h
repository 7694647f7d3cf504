#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "algorithm/secure/pair_keys.h"
#include "algorithm/secure/ring_vector.h"
#include "algorithm/secure/session.h"
#include "algorithm/secure/sum_party.h"

namespace chorus::inline secure {

/// The server of SecAgg and SecAgg+: a state machine over messages.
///
///     SumServer server(session);
///     for (Phase after Phase) { deliver(server); Result<Outgoing> next = server.close(); if (!next) abort;
///     send(*next); } server.sum()                             // of the inputs of server.survivors()
///
/// Masked inputs are added as they arrive: memory is one vector per thread, however many clients there are. A client's
/// second, different message of a phase is refused; the same bytes again change nothing. When fewer than t neighbours
/// of somebody reply to the last request, or a reconstructed key is not the one that was committed to, the sum is
/// abandoned: no part of it is ever returned.
class SumServer : public SumHost {
 public:
  enum class Phase { kAdvertise, kShare, kMask, kConsistency, kUnmask, kDone, kAborted };

  /// ConfigError for unsafe parameters. `threads`: of the last step.
  explicit SumServer(SumSession session, unsigned threads = 1);

  Result<Accepted> receive(ClientId from, ByteView message) override;
  Result<Outgoing> close() override;

  Phase phase() const { return phase_; }
  bool done() const override { return phase_ == Phase::kDone; }
  const std::vector<ClientId>& survivors() const override { return survivors_; }
  const RingVector& sum() const override;
  const SumSession& session() const { return session_; }

 private:
  std::string accept_keys(ClientId from, ByteView message);
  std::string accept_shares(ClientId from, ByteView message);
  std::string accept_input(ClientId from, ByteView message);
  std::string accept_signature(ClientId from, ByteView message);
  std::string accept_revealed(ClientId from, ByteView message);
  Result<Outgoing> send_keys();
  Result<Outgoing> forward_shares();
  Result<Outgoing> send_survivors();
  Result<Outgoing> send_signatures();
  Result<Outgoing> finish();
  Failure aborted(std::string reason);
  std::optional<MessageType> expected() const;
  Outgoing to_asked(Bytes message) const;
  std::vector<ClientId> neighbours_of(ClientId client) const;
  std::uint32_t place_of(ClientId client) const;

  /// A mask to remove from the sum.
  struct MaskJob {
    Key key;
    bool subtract = false;
  };
  std::optional<Key> join_seed(ClientId client, RevealedShare::Kind kind);
  Result<std::vector<MaskJob>> masks_left();
  void remove(const std::vector<MaskJob>& jobs);

  SumSession session_;
  unsigned threads_;
  Digest context_, id_{};
  Phase phase_ = Phase::kAdvertise;
  Fingerprints fingerprints_;
  std::map<ClientId, Fingerprints::Value> received_;  // in this phase
  std::map<ClientId, Advertisement> advertised_;
  std::vector<Advertisement> keys_;      // of those who are in, ascending
  std::optional<NeighbourGraph> graph_;  // over their places
  std::map<ClientId, std::vector<SealedShare>> sealed_;
  std::set<ClientId> sharing_, asked_;  // sent shares; were asked in this phase
  RingVector sum_;
  std::vector<ClientId> survivors_;
  std::map<ClientId, Signature> signatures_;
  std::map<ClientId, std::vector<RevealedShare>> revealed_;  // by who revealed
  SecretJoiner joiner_;
  Key probe_;  // agrees with public keys to see whether they are valid
};

}  // namespace chorus::inline secure
