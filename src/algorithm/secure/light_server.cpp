#include "algorithm/secure/light_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace chorus::inline secure {

LightServer::LightServer(SumSession session)
    : session_(std::move(session)),
      context_(light_context(session_)),
      code_(code_of(session_.parameters)),
      sum_(session_.parameters.ring_bits, session_.parameters.length + 1),
      probe_(random_key()) {
  if (const std::string mistake = light_mistake(session_.parameters); !mistake.empty()) {
    throw ConfigError("secure sum: " + mistake);
  }
  check(std::is_sorted(session_.cohort.begin(), session_.cohort.end()) && session_.cohort.size() == code_.clients,
        "LightSecAgg's N is everybody invited, in order");
  asked_.insert(session_.cohort.begin(), session_.cohort.end());
}

const RingVector& LightServer::sum() const {
  check(phase_ == Phase::kDone, "a secure sum is known only when it is done");
  return sum_;
}

Failure LightServer::aborted(std::string reason) {
  phase_ = Phase::kAborted;
  sum_ = RingVector(sum_.bits(), 0);
  sealed_.clear();
  sums_of_shares_.clear();
  return {Failure::Kind::kRefused, std::move(reason)};
}

Result<SumHost::Accepted> LightServer::receive(ClientId from, ByteView message) {
  const auto refused = [](std::string why) { return Failure{Failure::Kind::kRefused, std::move(why)}; };
  const std::optional<MessageHead> head = read_head(message);
  if (!head) return Failure{Failure::Kind::kMalformed, "not a message of a secure sum"};
  if (head->client != from) return refused("a message in the name of another client");
  static const std::map<Phase, MessageType> kExpected{{Phase::kAdvertise, MessageType::kAdvertise},
                                                      {Phase::kShare, MessageType::kShares},
                                                      {Phase::kMask, MessageType::kMasked},
                                                      {Phase::kUnmask, MessageType::kUnmask}};
  const auto expected = kExpected.find(phase_);
  if (expected == kExpected.end() || head->type != expected->second) return refused("a message out of order");
  if (head->tag != (phase_ == Phase::kAdvertise ? context_ : id_)) return refused("a message of another session");
  if (!asked_.contains(from)) return refused("a client that was not asked");
  const Fingerprints::Value fingerprint = fingerprints_.of(message);
  if (const auto before = received_.find(from); before != received_.end()) {
    if (before->second == fingerprint) return Accepted::kAgain;
    return refused("a second, different message");
  }
  std::string fault;
  switch (phase_) {
    case Phase::kAdvertise:
      fault = accept_keys(from, message);
      break;
    case Phase::kShare:
      fault = accept_shares(from, message);
      break;
    case Phase::kMask:
      fault = accept_input(from, message);
      break;
    default:
      fault = accept_sum_of_shares(from, message);
  }
  if (!fault.empty()) return Failure{Failure::Kind::kMalformed, fault};
  received_[from] = fingerprint;
  return Accepted::kNew;
}

std::string LightServer::accept_keys(ClientId from, ByteView message) {
  const auto keys = read_advertisement(message);
  if (!keys || keys->client != from) return "keys that cannot be read";
  if (!agree(probe_, keys->sealing)) return "an invalid public key";
  for (const auto& entry : advertised_) {
    if (entry.second.sealing == keys->sealing) return "the public key of another client";
  }
  advertised_[from] = *keys;
  return "";
}

std::string LightServer::accept_shares(ClientId from, ByteView message) {
  auto shares = read_coded(message, code_.piece() * (session_.parameters.ring_bits / 8));
  if (!shares || shares->size() + 1 != advertised_.size()) return "shares that cannot be read";
  for (const SealedShare& entry : *shares) {
    if (entry.client == from || !advertised_.contains(entry.client)) return "a share for a stranger";
  }
  for (SealedShare& entry : *shares) sealed_[entry.client].push_back({from, std::move(entry.sealed)});
  sharing_.insert(from);
  return "";
}

std::optional<RingVector> LightServer::field_vector(ByteView message, std::size_t size) const {
  const auto input = read_masked(message);
  RingVector vector(session_.parameters.ring_bits, 0);
  const std::size_t bytes = size * (vector.bits() / 8);
  if (!input || input->bits != vector.bits() || input->words.size() != bytes) return std::nullopt;
  vector = RingVector(vector.bits(), size);
  vector.add(input->words);
  if (!in_field(vector)) return std::nullopt;
  return vector;
}

std::string LightServer::accept_input(ClientId from, ByteView message) {
  const auto input = field_vector(message, code_.length);
  if (!input) return "an input of another length, or outside the field";
  add_in_field(sum_, *input);
  survivors_.push_back(from);
  return "";
}

std::string LightServer::accept_sum_of_shares(ClientId from, ByteView message) {
  auto sum = field_vector(message, code_.piece());
  if (!sum) return "a sum of shares of another length, or outside the field";
  // More than enough are not kept.
  if (sums_of_shares_.size() < code_.enough) sums_of_shares_.emplace(from, std::move(*sum));
  return "";
}

SumHost::Outgoing LightServer::to_asked(Bytes message) const {
  const auto shared = std::make_shared<const Bytes>(std::move(message));
  Outgoing out;
  for (const ClientId client : asked_) out[client] = shared;
  return out;
}

Result<SumHost::Outgoing> LightServer::close() {
  received_.clear();
  switch (phase_) {
    case Phase::kAdvertise:
      return send_keys();
    case Phase::kShare:
      return forward_shares();
    case Phase::kMask:
      return send_survivors();
    case Phase::kUnmask:
      return finish();
    case Phase::kDone:
    case Phase::kAborted:
      break;
  }
  return Failure{Failure::Kind::kRefused, "the secure sum has ended"};
}

Result<SumHost::Outgoing> LightServer::send_keys() {
  const std::size_t least = std::max(session_.parameters.threshold, session_.parameters.least_cohort);
  if (advertised_.size() < least) return aborted(fmt::format("only {} clients sent keys", advertised_.size()));
  std::vector<Advertisement> keys;
  asked_.clear();
  for (const auto& entry : advertised_) {
    keys.push_back(entry.second);
    asked_.insert(entry.first);
  }
  id_ = session_id(context_, keys);
  phase_ = Phase::kShare;
  return to_asked(write_keys({MessageType::kKeys, kEverybody, context_}, keys));
}

Result<SumHost::Outgoing> LightServer::forward_shares() {
  const std::size_t least = std::max(session_.parameters.threshold, session_.parameters.least_cohort);
  if (sharing_.size() < least) return aborted(fmt::format("only {} clients shared their masks", sharing_.size()));
  Outgoing out;
  asked_ = sharing_;
  for (const ClientId client : sharing_) {
    std::vector<SealedShare>& sealed = sealed_[client];
    std::sort(sealed.begin(), sealed.end(), [](const auto& a, const auto& b) { return a.client < b.client; });
    out[client] = std::make_shared<const Bytes>(write_coded({MessageType::kForwarded, client, id_}, sealed));
  }
  sealed_.clear();
  phase_ = Phase::kMask;
  return out;
}

Result<SumHost::Outgoing> LightServer::send_survivors() {
  std::sort(survivors_.begin(), survivors_.end());
  const std::size_t least = std::max(session_.parameters.threshold, session_.parameters.least_cohort);
  if (survivors_.size() < least) return aborted(fmt::format("only {} inputs arrived", survivors_.size()));
  asked_ = {survivors_.begin(), survivors_.end()};
  phase_ = Phase::kUnmask;
  return to_asked(write_survivors({MessageType::kSurvivors, kEverybody, id_}, survivors_));
}

Result<SumHost::Outgoing> LightServer::finish() {
  if (sums_of_shares_.size() < code_.enough) {
    return aborted(fmt::format("only {} clients sent their sums of shares", sums_of_shares_.size()));
  }
  std::vector<CodedShare> shares;
  const auto& cohort = session_.cohort;
  for (const auto& entry : sums_of_shares_) {
    const auto place = std::lower_bound(cohort.begin(), cohort.end(), entry.first) - cohort.begin();
    shares.push_back({static_cast<std::size_t>(place), &entry.second});
  }
  subtract_in_field(sum_, decode_mask(code_, shares));
  const std::size_t length = session_.parameters.length;
  if (field_checksum(sum_, length, checksum_seed(context_)) != sum_.at(length)) {
    return aborted("the checksum of the sum is wrong");
  }
  sum_ = sum_.part(0, length);
  from_field(sum_);
  sums_of_shares_.clear();
  phase_ = Phase::kDone;
  return Outgoing{};
}

}  // namespace chorus::inline secure
