#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "algorithm/secure/pair_keys.h"
#include "algorithm/secure/phased_sum.h"

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
class SumServer : public PhasedServer {
 public:
  /// ConfigError for unsafe parameters. `threads`: of the last step.
  explicit SumServer(SumSession session, unsigned threads = 1);

 private:
  std::string accept_keys(ClientId from, ByteView message) override;
  std::string accept_shares(ClientId from, ByteView message) override;
  std::string accept_input(ClientId from, ByteView message) override;
  std::string accept_signature(ClientId from, ByteView message) override;
  std::string accept_unmasking(ClientId from, ByteView message) override;
  std::size_t least_sharing() const override;
  std::size_t least_inputs() const override { return session_.parameters.least_cohort; }
  void meet_keys() override;
  Bytes write_forwarded(const MessageHead& head, const std::vector<SealedShare>& sealed) const override {
    return write_shares(head, sealed);
  }
  Result<Outgoing> send_signatures() override;
  Result<Outgoing> finish() override;
  void wipe_secrets() override { revealed_.clear(); }
  std::vector<ClientId> neighbours_of(ClientId client) const;
  std::uint32_t place_of(ClientId client) const;

  /// A mask to remove from the sum: a survivor's own, or that of a pair.
  struct MaskJob {
    Key key;                         ///< of an own mask
    const Key* masking = nullptr;    ///< of the vanished client of a pair, from which the mask's key is derived
    ClientId client = 0, other = 0;  ///< the pair
    bool subtract = false;
  };
  struct MasksLeft {
    std::deque<Key> masking;
    std::vector<MaskJob> jobs;
  };
  std::optional<Key> join_seed(ClientId client, RevealedShare::Kind kind);
  Result<MasksLeft> masks_left();
  /// False if no key can be derived for a pair.
  bool add_mask(const MaskJob& job, RingVector& into) const;
  void remove(const std::vector<MaskJob>& jobs);

  unsigned threads_;
  std::optional<NeighbourGraph> graph_;  // over the places in keys_
  std::map<ClientId, Signature> signatures_;
  std::map<ClientId, std::vector<RevealedShare>> revealed_;  // by who revealed
  SecretJoiner joiner_;
};

}  // namespace chorus::inline secure
