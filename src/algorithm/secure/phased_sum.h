#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithm/secure/messages.h"
#include "algorithm/secure/ring_vector.h"
#include "algorithm/secure/session.h"
#include "algorithm/secure/sum_party.h"

/// What the state machines of both protocols have in common: the order of the messages, which belong to a session, and
/// what is done with those that do not.
namespace chorus::inline secure {

/// A message which proves that the server, or whoever impersonates it, lies.
class Hostile : public std::runtime_error {
 public:
  explicit Hostile(const std::string& reason) : std::runtime_error(reason) {}
};
/// Throws Hostile.
void demand(bool holds, const std::string& reason);

/// The entry of a client in a list that is ascending by client; its end when it has none.
template <typename Entry>
auto entry_of(const std::vector<Entry>& list, ClientId client) {
  const auto found = std::lower_bound(list.begin(), list.end(), client,
                                      [](const Entry& entry, ClientId id) { return entry.client < id; });
  return found != list.end() && found->client == client ? found : list.end();
}

/// A client. A message that was damaged, or belongs to another session, client or state, is refused and changes
/// nothing. One that is read and is wrong (an unknown survivor, a second list of survivors, a bad signature) aborts:
/// all secrets are wiped and nothing is answered any more. The same bytes once more get the same reply.
class PhasedClient : public SumParty {
 public:
  enum class State { kAdvertised, kShared, kMasked, kSigned, kDone, kAborted };

  const Bytes& advertise() const override { return last_reply_; }
  Result<Bytes> receive(ByteView message) final;
  State state() const { return state_; }
  const std::string& abort_reason() const { return abort_reason_; }

 protected:
  using Context = Digest (*)(const SumSession&);
  PhasedClient(SumSession session, ClientId self, Context context)
      : session_(std::move(session)), self_(self), context_(context(session_)) {}

  // The reply to a message of the server. Hostile: it lies.
  virtual Bytes meet_keys(ByteView message) = 0;
  virtual Bytes mask_input(ByteView message) = 0;
  virtual Bytes meet_survivors(ByteView message) = 0;
  virtual Bytes check_signatures(ByteView message);  // active server
  virtual void wipe_secrets() = 0;

  const Advertisement& keys_of(ClientId client) const { return *entry_of(keys_, client); }

  SumSession session_;
  ClientId self_;
  Digest context_, id_{};
  std::vector<Advertisement> keys_;  // of everybody, ascending
  Bytes last_reply_;

 private:
  std::optional<Bytes> answer(MessageType type, ByteView message);

  State state_ = State::kAdvertised;
  std::string abort_reason_;
  Fingerprints fingerprints_;
  Fingerprints::Value last_message_{};  // that last_reply_ answers
};

/// A server. A client's second, different message of a phase is refused; the same bytes again change nothing.
class PhasedServer : public SumHost {
 public:
  enum class Phase { kAdvertise, kShare, kMask, kConsistency, kUnmask, kDone, kAborted };

  Result<Accepted> receive(ClientId from, ByteView message) final;
  Result<Outgoing> close() final;
  bool done() const override { return phase_ == Phase::kDone; }
  const std::vector<ClientId>& survivors() const override { return survivors_; }
  const RingVector& sum() const override;
  Phase phase() const { return phase_; }
  const SumSession& session() const { return session_; }

 protected:
  using Context = Digest (*)(const SumSession&);
  PhasedServer(SumSession session, Context context);

  // What is wrong with a client's message, or "".
  virtual std::string accept_keys(ClientId from, ByteView message) = 0;
  virtual std::string accept_shares(ClientId from, ByteView message) = 0;
  virtual std::string accept_input(ClientId from, ByteView message) = 0;
  virtual std::string accept_signature(ClientId, ByteView) { return "nobody asked for a signature"; }
  virtual std::string accept_unmasking(ClientId from, ByteView message) = 0;
  // Fewest clients that must have sent keys and shares, and inputs.
  virtual std::size_t least_sharing() const = 0;
  virtual std::size_t least_inputs() const = 0;
  virtual void meet_keys() {}
  virtual Bytes write_forwarded(const MessageHead& head, const std::vector<SealedShare>& sealed) const = 0;
  virtual Result<Outgoing> send_signatures() { return aborted("nobody signs"); }
  virtual Result<Outgoing> finish() = 0;
  virtual void wipe_secrets() = 0;

  Failure aborted(std::string reason);

  SumSession session_;
  Digest context_, id_{};
  Phase phase_ = Phase::kAdvertise;
  std::map<ClientId, Advertisement> advertised_;
  std::vector<Advertisement> keys_;                      // of those who are in, ascending
  std::map<ClientId, std::vector<SealedShare>> sealed_;  // by who receives them
  std::set<ClientId> sharing_, asked_;                   // sent shares; were asked in this phase
  RingVector sum_;
  std::vector<ClientId> survivors_;
  Key probe_;  // agrees with public keys to see whether they are valid

 private:
  std::optional<MessageType> expected() const;
  std::string accept(ClientId from, ByteView message);
  Result<Outgoing> send_keys();
  Result<Outgoing> forward_shares();
  Result<Outgoing> send_survivors();
  Outgoing to_asked(Bytes message) const;

  Fingerprints fingerprints_;
  std::map<ClientId, Fingerprints::Value> received_;  // in this phase
};

}  // namespace chorus::inline secure
