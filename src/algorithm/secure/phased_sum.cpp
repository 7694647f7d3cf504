#include "algorithm/secure/phased_sum.h"

#include <fmt/format.h>

#include <algorithm>

#include "algorithm/secure/pair_keys.h"
#include "core/base/error.h"

namespace chorus::inline secure {

void demand(bool holds, const std::string& reason) {
  if (!holds) throw Hostile(reason);
}

Result<Bytes> PhasedClient::receive(ByteView message) {
  const auto refused = [](const char* why) { return Failure{Failure::Kind::kRefused, why}; };
  if (state_ == State::kAborted) return refused("the session was aborted");
  const std::optional<MessageHead> got = read_head(message);
  if (!got) return Failure{Failure::Kind::kMalformed, no_head(message)};
  if (got->client != self_ && got->client != kEverybody) return refused("a message for another client");
  if (!undamaged(message)) return Failure{Failure::Kind::kMalformed, "a message that was damaged on the way"};
  const Fingerprints::Value fingerprint = fingerprints_.of(message);
  if (state_ != State::kAdvertised && fingerprint == last_message_) return Bytes(last_reply_);
  if (got->tag != (got->type == MessageType::kKeys ? context_ : id_)) return refused("a message of another session");
  try {
    std::optional<Bytes> reply = answer(got->type, message);
    if (!reply) return refused("a message out of order");
    last_message_ = fingerprint;
    last_reply_ = std::move(*reply);
    return Bytes(last_reply_);
  } catch (const Hostile& reason) {
    abort_reason_ = reason.what();
    state_ = State::kAborted;
    wipe_secrets();
    last_reply_.clear();
    return refused("the session was aborted");
  }
}

std::optional<Bytes> PhasedClient::answer(MessageType type, ByteView message) {
  Bytes reply;
  if (state_ == State::kAdvertised && type == MessageType::kKeys) {
    reply = meet_keys(message);
    state_ = State::kShared;
  } else if (state_ == State::kShared && type == MessageType::kForwarded) {
    reply = mask_input(message);
    state_ = State::kMasked;
  } else if (state_ == State::kMasked && type == MessageType::kSurvivors) {
    reply = meet_survivors(message);
    state_ = session_.parameters.trust == Trust::kActive ? State::kSigned : State::kDone;
  } else if (state_ == State::kSigned && type == MessageType::kSignatures) {
    reply = check_signatures(message);
    state_ = State::kDone;
  } else {
    // The one reordering that an attacker profits from: two different lists of survivors.
    demand(type != MessageType::kSurvivors || state_ < State::kSigned, "a second list of survivors");
    return std::nullopt;
  }
  if (state_ == State::kDone) wipe_secrets();
  return reply;
}

Bytes PhasedClient::check_signatures(ByteView) { throw Hostile("signatures in a sum without any"); }

PhasedServer::PhasedServer(SumSession session, Context context)
    : session_(std::move(session)),
      context_(context(session_)),
      sum_(session_.parameters.ring_bits, 0),
      probe_(random_key()) {
  check(std::is_sorted(session_.cohort.begin(), session_.cohort.end()), "the cohort of a secure sum is in order");
  asked_.insert(session_.cohort.begin(), session_.cohort.end());
}

const RingVector& PhasedServer::sum() const {
  check(phase_ == Phase::kDone, "a secure sum is known only when it is done");
  return sum_;
}

Failure PhasedServer::aborted(std::string reason) {
  phase_ = Phase::kAborted;
  sum_ = RingVector(sum_.bits(), 0);
  sealed_.clear();
  wipe_secrets();
  return {Failure::Kind::kRefused, std::move(reason)};
}

std::optional<MessageType> PhasedServer::expected() const {
  switch (phase_) {
    case Phase::kAdvertise:
      return MessageType::kAdvertise;
    case Phase::kShare:
      return MessageType::kShares;
    case Phase::kMask:
      return MessageType::kMasked;
    case Phase::kConsistency:
      return MessageType::kConsistency;
    case Phase::kUnmask:
      return MessageType::kUnmask;
    case Phase::kDone:
    case Phase::kAborted:
      break;
  }
  return std::nullopt;
}

Result<SumHost::Accepted> PhasedServer::receive(ClientId from, ByteView message) {
  const auto refused = [](std::string why) { return Failure{Failure::Kind::kRefused, std::move(why)}; };
  const std::optional<MessageHead> head = read_head(message);
  if (!head) return Failure{Failure::Kind::kMalformed, no_head(message)};
  if (head->client != from) return refused("a message in the name of another client");
  if (head->type != expected()) return refused("a message out of order");
  if (head->tag != (phase_ == Phase::kAdvertise ? context_ : id_)) return refused("a message of another session");
  if (!asked_.contains(from)) return refused("a client that was not asked");
  const Fingerprints::Value fingerprint = fingerprints_.of(message);
  if (const auto before = received_.find(from); before != received_.end()) {
    if (before->second == fingerprint) return Accepted::kAgain;
    return refused("a second, different message");
  }
  if (std::string fault = accept(from, message); !fault.empty()) return Failure{Failure::Kind::kMalformed, fault};
  received_[from] = fingerprint;
  return Accepted::kNew;
}

std::string PhasedServer::accept(ClientId from, ByteView message) {
  switch (phase_) {
    case Phase::kAdvertise:
      return accept_keys(from, message);
    case Phase::kShare:
      return accept_shares(from, message);
    case Phase::kMask:
      return accept_input(from, message);
    case Phase::kConsistency:
      return accept_signature(from, message);
    default:
      return accept_unmasking(from, message);
  }
}

Result<SumHost::Outgoing> PhasedServer::close() {
  received_.clear();
  switch (phase_) {
    case Phase::kAdvertise:
      return send_keys();
    case Phase::kShare:
      return forward_shares();
    case Phase::kMask:
      return send_survivors();
    case Phase::kConsistency:
      return send_signatures();
    case Phase::kUnmask:
      return finish();
    case Phase::kDone:
    case Phase::kAborted:
      break;
  }
  return Failure{Failure::Kind::kRefused, "the secure sum has ended"};
}

SumHost::Outgoing PhasedServer::to_asked(Bytes message) const {
  const auto shared = std::make_shared<const Bytes>(std::move(message));
  Outgoing out;
  for (const ClientId client : asked_) out[client] = shared;
  return out;
}

Result<SumHost::Outgoing> PhasedServer::send_keys() {
  if (advertised_.size() < least_sharing()) {
    return aborted(fmt::format("only {} clients sent keys", advertised_.size()));
  }
  asked_.clear();
  for (const auto& entry : advertised_) {
    keys_.push_back(entry.second);
    asked_.insert(entry.first);
  }
  id_ = session_id(context_, keys_);
  meet_keys();
  phase_ = Phase::kShare;
  return to_asked(write_keys({MessageType::kKeys, kEverybody, context_}, keys_));
}

Result<SumHost::Outgoing> PhasedServer::forward_shares() {
  if (sharing_.size() < least_sharing()) {
    return aborted(fmt::format("only {} clients shared keys", sharing_.size()));
  }
  Outgoing out;
  asked_ = sharing_;
  for (const ClientId client : sharing_) {
    std::vector<SealedShare>& sealed = sealed_[client];
    std::sort(sealed.begin(), sealed.end(), [](const auto& a, const auto& b) { return a.client < b.client; });
    out[client] = std::make_shared<const Bytes>(write_forwarded({MessageType::kForwarded, client, id_}, sealed));
  }
  sealed_.clear();
  phase_ = Phase::kMask;
  return out;
}

Result<SumHost::Outgoing> PhasedServer::send_survivors() {
  std::sort(survivors_.begin(), survivors_.end());
  if (survivors_.size() < least_inputs()) return aborted(fmt::format("only {} inputs arrived", survivors_.size()));
  asked_ = {survivors_.begin(), survivors_.end()};
  phase_ = session_.parameters.trust == Trust::kActive ? Phase::kConsistency : Phase::kUnmask;
  return to_asked(write_survivors({MessageType::kSurvivors, kEverybody, id_}, survivors_));
}

}  // namespace chorus::inline secure
