#include "algorithm/secure/sum_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/error.h"

namespace chorus::inline secure {

SumServer::SumServer(SumSession session, unsigned threads)
    : PhasedServer(std::move(session), [](const SumSession& of) { return of.context(); }),
      threads_(std::max(threads, 1U)) {
  if (const std::string mistake = session_.parameters.mistake(); !mistake.empty()) {
    throw ConfigError("secure sum: " + mistake);
  }
}

std::size_t SumServer::least_sharing() const {
  return std::max(session_.parameters.least_cohort, session_.parameters.threshold + 1);
}

void SumServer::meet_keys() { graph_ = graph_of(id_, keys_.size(), session_.parameters.neighbours); }

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

std::string SumServer::accept_unmasking(ClientId from, ByteView message) {
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
  return static_cast<std::uint32_t>(entry_of(keys_, client) - keys_.begin());
}

std::vector<ClientId> SumServer::neighbours_of(ClientId client) const {
  std::vector<ClientId> result;
  for (const std::uint32_t place : graph_->neighbours(place_of(client))) result.push_back(keys_[place].client);
  return result;
}

Result<SumHost::Outgoing> SumServer::send_signatures() {
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
    const auto entry = entry_of(revealed->second, client);
    if (entry != revealed->second.end() && entry->kind == kind) {
      shares.push_back({place_of(from) + 1, &entry->share});
    }
  }
  return joiner_.join(shares, session_.parameters.threshold);
}

Result<SumServer::MasksLeft> SumServer::masks_left() {
  MasksLeft left;
  for (const ClientId client : survivors_) {
    const std::optional<Key> seed = join_seed(client, RevealedShare::Kind::kOwnMask);
    if (!seed) return aborted("too few neighbours of a survivor replied");
    if (commitment_to(*seed, context_, client) != keys_[place_of(client)].commitment) {
      return aborted("the shares of a survivor's mask do not belong together");
    }
    left.jobs.push_back({.key = own_mask_key(*seed, id_, client), .subtract = true});
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
    const Key& secret = left.masking.emplace_back(masking_secret(*seed));
    if (public_key_of(secret) != keys_[place_of(client)].masking) {
      return aborted("the shares of a vanished client's key do not belong together");
    }
    for (const ClientId other : masked) {
      left.jobs.push_back(
          {.key = {}, .masking = &secret, .client = client, .other = other, .subtract = other < client});
    }
  }
  return left;
}

bool SumServer::add_mask(const MaskJob& job, RingVector& into) const {
  if (job.masking == nullptr) {
    into.add_mask(job.key, job.subtract);
    return true;
  }
  const std::optional<Key> shared = agree(*job.masking, keys_[place_of(job.other)].masking);
  if (shared) into.add_mask(pair_mask_key(*shared, id_, job.client, job.other), job.subtract);
  return shared.has_value();
}

void SumServer::remove(const std::vector<MaskJob>& jobs) {
  const std::size_t threads = std::min<std::size_t>(threads_, jobs.size());
  std::vector<RingVector> parts;
  for (std::size_t i = 1; i < threads; ++i) parts.emplace_back(sum_.bits(), sum_.size());
  std::vector<std::thread> helpers;
  std::atomic<bool> derived = true;
  const auto work = [&](std::size_t share, RingVector& into) {
    for (std::size_t i = share; i < jobs.size(); i += threads) {
      if (!add_mask(jobs[i], into)) derived = false;
    }
  };
  for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(work, i, std::ref(parts[i - 1]));
  work(0, sum_);
  for (std::thread& helper : helpers) helper.join();
  check(derived, "public keys are checked when they arrive");
  for (const RingVector& part : parts) sum_.add(part);
}

Result<SumHost::Outgoing> SumServer::finish() {
  auto left = masks_left();
  if (!left) return left.failure();
  remove(left.value().jobs);
  revealed_.clear();
  phase_ = Phase::kDone;
  return Outgoing{};
}

}  // namespace chorus::inline secure
