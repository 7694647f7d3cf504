#include "algorithm/secure/sum_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "core/base/error.h"

namespace chorus::inline secure {

SumServer::SumServer(SumSession session, unsigned threads)
    : session_(std::move(session)),
      threads_(std::max(threads, 1U)),
      context_(session_.context()),
      sum_(session_.parameters.ring_bits, 0),
      probe_(random_key()) {
  if (const std::string mistake = session_.parameters.mistake(); !mistake.empty()) {
    throw ConfigError("secure sum: " + mistake);
  }
  check(std::is_sorted(session_.cohort.begin(), session_.cohort.end()), "the cohort of a secure sum is in order");
  asked_.insert(session_.cohort.begin(), session_.cohort.end());
}

const RingVector& SumServer::sum() const {
  check(phase_ == Phase::kDone, "a secure sum is known only when it is done");
  return sum_;
}

Failure SumServer::aborted(std::string reason) {
  phase_ = Phase::kAborted;
  sum_ = RingVector(sum_.bits(), 0);
  revealed_.clear();
  sealed_.clear();
  return {Failure::Kind::kRefused, std::move(reason)};
}

std::optional<MessageType> SumServer::expected() const {
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

Result<SumServer::Accepted> SumServer::receive(ClientId from, ByteView message) {
  const auto refused = [](std::string why) { return Failure{Failure::Kind::kRefused, std::move(why)}; };
  const std::optional<MessageHead> head = read_head(message);
  if (!head) return Failure{Failure::Kind::kMalformed, "not a message of a secure sum"};
  if (head->client != from) return refused("a message in the name of another client");
  if (head->type != expected()) return refused("a message out of order");
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
    case Phase::kConsistency:
      fault = accept_signature(from, message);
      break;
    default:
      fault = accept_revealed(from, message);
  }
  if (!fault.empty()) return Failure{Failure::Kind::kMalformed, fault};
  received_[from] = fingerprint;
  return Accepted::kNew;
}

std::string SumServer::accept_keys(ClientId from, ByteView message) {
  const auto keys = read_advertisement(message);
  if (!keys || keys->client != from) return "keys that cannot be read";
  if (session_.parameters.trust == Trust::kActive) {
    const auto identity = session_.identities.find(from);
    if (identity == session_.identities.end() ||
        !verify(identity->second, keys->signed_part(context_), keys->signature)) {
      return "keys with a wrong signature";
    }
  }
  // A key of small order would make every neighbour abort.
  if (!agree(probe_, keys->sealing) || !agree(probe_, keys->masking)) return "an invalid public key";
  for (const auto& entry : advertised_) {
    const Advertisement& other = entry.second;
    if (keys->sealing == other.sealing || keys->masking == other.masking || keys->sealing == other.masking ||
        keys->masking == other.sealing) {
      return "the public key of another client";
    }
  }
  if (keys->sealing == keys->masking) return "one public key for two purposes";
  advertised_[from] = *keys;
  return "";
}

std::string SumServer::accept_shares(ClientId from, ByteView message) {
  auto sealed = read_shares(message);
  if (!sealed) return "shares that cannot be read";
  const std::vector<ClientId> neighbours = neighbours_of(from);
  if (!std::equal(sealed->begin(), sealed->end(), neighbours.begin(), neighbours.end(),
                  [](const SealedShare& share, ClientId client) { return share.client == client; })) {
    return "shares for others than its neighbours";
  }
  for (SealedShare& share : *sealed) sealed_[share.client].push_back({from, std::move(share.sealed)});
  sharing_.insert(from);
  return "";
}

std::string SumServer::accept_input(ClientId from, ByteView message) {
  const auto masked = read_masked(message);
  if (!masked || masked->bits != sum_.bits() ||
      masked->words.size() != session_.parameters.length * (masked->bits / 8)) {
    return "a masked input of another length or ring";
  }
  if (sum_.size() == 0) sum_ = RingVector(sum_.bits(), session_.parameters.length);
  sum_.add(masked->words);
  survivors_.push_back(from);
  return "";
}

std::string SumServer::accept_signature(ClientId from, ByteView message) {
  const auto signature = read_signature(message);
  const auto identity = session_.identities.find(from);
  if (!signature || identity == session_.identities.end() ||
      !verify(identity->second, survivors_digest(id_, survivors_), *signature)) {
    return "a wrong signature under the list of survivors";
  }
  signatures_[from] = *signature;
  return "";
}

std::string SumServer::accept_revealed(ClientId from, ByteView message) {
  auto revealed = read_revealed(message);
  if (!revealed) return "shares that cannot be read";
  for (const RevealedShare& entry : *revealed) {
    const bool survived = std::binary_search(survivors_.begin(), survivors_.end(), entry.client);
    if (!sharing_.contains(entry.client) || !graph_->adjacent(place_of(from), place_of(entry.client)) ||
        (entry.kind == RevealedShare::Kind::kOwnMask) != survived) {
      return "a share that was not asked for";
    }
  }
  revealed_[from] = std::move(*revealed);
  return "";
}

std::uint32_t SumServer::place_of(ClientId client) const {
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), client,
                                      [](const Advertisement& a, ClientId b) { return a.client < b; });
  return static_cast<std::uint32_t>(found - keys_.begin());
}

std::vector<ClientId> SumServer::neighbours_of(ClientId client) const {
  std::vector<ClientId> result;
  for (const std::uint32_t place : graph_->neighbours(place_of(client))) result.push_back(keys_[place].client);
  return result;
}

Result<SumServer::Outgoing> SumServer::close() {
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

SumServer::Outgoing SumServer::to_asked(Bytes message) const {
  const auto shared = std::make_shared<const Bytes>(std::move(message));
  Outgoing out;
  for (const ClientId client : asked_) out[client] = shared;
  return out;
}

Result<SumServer::Outgoing> SumServer::send_keys() {
  const SumParameters& parameters = session_.parameters;
  if (advertised_.size() < std::max(parameters.least_cohort, parameters.threshold + 1)) {
    return aborted(fmt::format("only {} clients sent keys", advertised_.size()));
  }
  for (const auto& entry : advertised_) keys_.push_back(entry.second);
  id_ = session_id(context_, keys_);
  graph_ = graph_of(id_, keys_.size(), parameters.neighbours);
  asked_.clear();
  for (const auto& entry : advertised_) asked_.insert(entry.first);
  phase_ = Phase::kShare;
  return to_asked(write_keys({MessageType::kKeys, kEverybody, context_}, keys_));
}

Result<SumServer::Outgoing> SumServer::forward_shares() {
  const SumParameters& parameters = session_.parameters;
  if (sharing_.size() < std::max(parameters.least_cohort, parameters.threshold + 1)) {
    return aborted(fmt::format("only {} clients shared keys", sharing_.size()));
  }
  Outgoing out;
  asked_ = sharing_;
  for (const ClientId client : sharing_) {
    std::vector<SealedShare>& sealed = sealed_[client];
    std::sort(sealed.begin(), sealed.end(), [](const auto& a, const auto& b) { return a.client < b.client; });
    out[client] = std::make_shared<const Bytes>(write_shares({MessageType::kForwarded, client, id_}, sealed));
  }
  sealed_.clear();
  phase_ = Phase::kMask;
  return out;
}

Result<SumServer::Outgoing> SumServer::send_survivors() {
  std::sort(survivors_.begin(), survivors_.end());
  if (survivors_.size() < session_.parameters.least_cohort) {
    return aborted(fmt::format("only {} inputs arrived", survivors_.size()));
  }
  asked_ = {survivors_.begin(), survivors_.end()};
  phase_ = session_.parameters.trust == Trust::kActive ? Phase::kConsistency : Phase::kUnmask;
  return to_asked(write_survivors({MessageType::kSurvivors, kEverybody, id_}, survivors_));
}

Result<SumServer::Outgoing> SumServer::send_signatures() {
  Outgoing out;
  asked_.clear();
  for (const auto& entry : signatures_) {
    asked_.insert(entry.first);
    std::vector<SignedBy> near;
    for (const ClientId client : neighbours_of(entry.first)) {
      const auto found = signatures_.find(client);
      if (found != signatures_.end()) near.push_back({client, found->second});
    }
    out[entry.first] =
        std::make_shared<const Bytes>(write_signatures({MessageType::kSignatures, entry.first, id_}, near));
  }
  phase_ = Phase::kUnmask;
  return out;
}

std::optional<Key> SumServer::join_seed(ClientId client, RevealedShare::Kind kind) {
  std::vector<PlacedShare> shares;
  for (const ClientId from : neighbours_of(client)) {
    const auto revealed = revealed_.find(from);
    if (revealed == revealed_.end()) continue;
    const auto entry = std::lower_bound(revealed->second.begin(), revealed->second.end(), client,
                                        [](const RevealedShare& a, ClientId b) { return a.client < b; });
    if (entry != revealed->second.end() && entry->client == client && entry->kind == kind) {
      shares.push_back({place_of(from) + 1, &entry->share});
    }
  }
  return joiner_.join(shares, session_.parameters.threshold);
}

Result<std::vector<SumServer::MaskJob>> SumServer::masks_left() {
  std::vector<MaskJob> jobs;
  for (const ClientId client : survivors_) {
    const std::optional<Key> seed = join_seed(client, RevealedShare::Kind::kOwnMask);
    if (!seed) return aborted("too few neighbours of a survivor replied");
    if (commitment_to(*seed, context_, client) != keys_[place_of(client)].commitment) {
      return aborted("the shares of a survivor's mask do not belong together");
    }
    jobs.push_back({own_mask_key(*seed, id_, client), true});
  }
  for (const ClientId client : sharing_) {
    if (std::binary_search(survivors_.begin(), survivors_.end(), client)) continue;
    std::vector<ClientId> masked;  // survivors that share a mask with the client
    for (const ClientId other : neighbours_of(client)) {
      if (std::binary_search(survivors_.begin(), survivors_.end(), other)) masked.push_back(other);
    }
    if (masked.empty()) continue;
    const std::optional<Key> seed = join_seed(client, RevealedShare::Kind::kMaskingKey);
    if (!seed) return aborted("too few neighbours of a vanished client replied");
    const Key secret = masking_secret(*seed);
    if (public_key_of(secret) != keys_[place_of(client)].masking) {
      return aborted("the shares of a vanished client's key do not belong together");
    }
    for (const ClientId other : masked) {
      const std::optional<Key> shared = agree(secret, keys_[place_of(other)].masking);
      check(shared.has_value(), "public keys are checked when they arrive");
      jobs.push_back({pair_mask_key(*shared, id_, client, other), other < client});
    }
  }
  return jobs;
}

void SumServer::remove(const std::vector<MaskJob>& jobs) {
  const std::size_t threads = std::min<std::size_t>(threads_, jobs.size());
  std::vector<RingVector> parts;
  for (std::size_t i = 1; i < threads; ++i) parts.emplace_back(sum_.bits(), sum_.size());
  std::vector<std::thread> helpers;
  const auto work = [&](std::size_t share, RingVector& into) {
    for (std::size_t i = share; i < jobs.size(); i += threads) into.add_mask(jobs[i].key, jobs[i].subtract);
  };
  for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work, i, std::ref(parts[i - 1]));
  work(0, sum_);
  for (std::thread& helper : helpers) helper.join();
  for (const RingVector& part : parts) sum_.add(part);
}

Result<SumServer::Outgoing> SumServer::finish() {
  auto jobs = masks_left();
  if (!jobs) return jobs.failure();
  remove(jobs.value());
  revealed_.clear();
  phase_ = Phase::kDone;
  return Outgoing{};
}

}  // namespace chorus::inline secure
