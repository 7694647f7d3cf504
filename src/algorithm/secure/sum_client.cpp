#include "algorithm/secure/sum_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

template <typename T>
T demand_read(std::optional<T> value, const char* what) {
  demand(value.has_value(), fmt::format("{} could not be read", what));
  return std::move(*value);
}

}  // namespace

SumClient::SumClient(SumSession session, ClientId self, const Secret<64>* identity, RingVector input)
    : PhasedClient(std::move(session), self, [](const SumSession& of) { return of.context(); }),
      identity_(identity),
      input_(std::move(input)) {
  const SumParameters& parameters = session_.parameters;
  if (const std::string mistake = parameters.mistake(); !mistake.empty()) {
    throw ConfigError("secure sum: " + mistake);
  }
  check(input_.bits() == parameters.ring_bits && input_.size() == parameters.length,
        "the input of a secure sum has another ring or length than its parameters");
  check((identity_ != nullptr) == (parameters.trust == Trust::kActive), "an active server needs signed keys");
  sealing_ = new_agreement_keys();
  own_seed_ = random_seed();
  masking_seed_ = random_seed();
  masking_.secret = masking_secret(masking_seed_);
  masking_.open = public_key_of(masking_.secret);
  Advertisement keys{self_, sealing_.open, masking_.open, commitment_to(own_seed_, context_, self_), {}};
  if (identity_ != nullptr) keys.signature = sign(*identity_, keys.signed_part(context_));
  last_reply_ = write_advertisement(head(MessageType::kAdvertise), keys);
}

MessageHead SumClient::head(MessageType type) const {
  return {type, self_, type == MessageType::kAdvertise ? context_ : id_};
}

void SumClient::check_keys() const {
  std::set<PublicKey> seen;
  bool own = false;
  for (const Advertisement& keys : keys_) {
    demand(std::binary_search(session_.cohort.begin(), session_.cohort.end(), keys.client), "keys of a stranger");
    demand(seen.insert(keys.sealing).second && seen.insert(keys.masking).second, "a public key occurs twice");
    if (keys.client == self_) {
      own = keys.sealing == sealing_.open && keys.masking == masking_.open &&
            keys.commitment == commitment_to(own_seed_, context_, self_);
    }
  }
  demand(own, "this client's own keys are missing or changed");
  demand(keys_.size() >= session_.parameters.least_cohort, "too few clients");
}

Bytes SumClient::meet_keys(ByteView message) {
  const SumParameters& parameters = session_.parameters;
  keys_ = demand_read(read_keys(message), "the list of keys");
  check_keys();
  id_ = session_id(context_, keys_);
  const auto own = static_cast<std::uint32_t>(&keys_of(self_) - keys_.data());
  std::vector<std::uint32_t> points;
  for (const std::uint32_t place : graph_of(id_, keys_.size(), parameters.neighbours).neighbours(own)) {
    neighbours_.push_back(keys_[place].client);
    points.push_back(place + 1);
  }
  demand(neighbours_.size() >= parameters.threshold, "fewer neighbours than the threshold");
  if (parameters.trust == Trust::kActive) {
    for (const ClientId client : neighbours_) {
      const auto identity = session_.identities.find(client);
      const Advertisement& keys = keys_of(client);
      demand(
          identity != session_.identities.end() && verify(identity->second, keys.signed_part(context_), keys.signature),
          "keys with a wrong signature");
    }
  }
  const std::vector<Share> own_mask = split_secret(own_seed_, parameters.threshold, points);
  const std::vector<Share> masking_key = split_secret(masking_seed_, parameters.threshold, points);
  std::vector<SealedShare> sealed;
  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    const ClientId to = neighbours_[i];
    const std::optional<Key> shared = agree(sealing_.secret, keys_of(to).sealing);
    demand(shared.has_value(), "an invalid public key");
    SecretBytes text(2 * Share::size());
    std::copy_n(own_mask[i].data(), Share::size(), text.data());
    std::copy_n(masking_key[i].data(), Share::size(), text.data() + Share::size());
    sealed.push_back({to, seal(sealing_key(*shared, id_, self_, to), sealing_bound(id_, self_, to), text.view())});
  }
  return write_shares(head(MessageType::kShares), sealed);
}

Bytes SumClient::mask_input(ByteView message) {
  const auto sealed = demand_read(read_shares(message), "the shares");
  demand(sealed.size() >= session_.parameters.threshold, "fewer neighbours shared keys than the threshold");
  input_.add_mask(own_mask_key(own_seed_, id_, self_), false);
  for (const SealedShare& entry : sealed) {
    const ClientId from = entry.client;
    demand(std::binary_search(neighbours_.begin(), neighbours_.end(), from), "shares of a stranger");
    sharing_.insert(from);
    const std::optional<Key> shared = agree(sealing_.secret, keys_of(from).sealing);
    const auto text = unseal(sealing_key(*shared, id_, from, self_), sealing_bound(id_, from, self_), entry.sealed);
    if (text) {
      HeldShares& held = held_[from];
      std::copy_n(text->view().begin(), Share::size(), held.own_mask.data());
      std::copy_n(text->view().begin() + Share::size(), Share::size(), held.masking_key.data());
    }
    const std::optional<Key> pair = agree(masking_.secret, keys_of(from).masking);
    demand(pair.has_value(), "an invalid public key");
    input_.add_mask(pair_mask_key(*pair, id_, self_, from), self_ > from);
  }
  demand(held_.size() >= session_.parameters.threshold, "fewer readable shares than the threshold");
  Bytes reply = write_masked(head(MessageType::kMasked), input_.bits(), input_.bytes());
  // No longer needed, and a second input under the same masks would reveal the difference.
  own_seed_.clear();
  masking_seed_.clear();
  masking_.secret.clear();
  sealing_.secret.clear();
  input_ = RingVector(input_.bits(), 0);
  return reply;
}

Bytes SumClient::meet_survivors(ByteView message) {
  const SumParameters& parameters = session_.parameters;
  survivors_ = demand_read(read_survivors(message), "the list of survivors");
  demand(survivors_.size() >= parameters.least_cohort, "fewer survivors than the least cohort");
  demand(std::binary_search(survivors_.begin(), survivors_.end(), self_), "this client is said to have vanished");
  std::size_t near = 0;
  for (const ClientId client : survivors_) {
    demand(entry_of(keys_, client) != keys_.end(), "a survivor without keys");
    if (!std::binary_search(neighbours_.begin(), neighbours_.end(), client)) continue;
    demand(sharing_.contains(client), "a survivor that had shared no keys");
    ++near;
  }
  demand(near >= parameters.threshold, "fewer neighbours survive than the threshold");
  if (parameters.trust == Trust::kSemiHonest) return reveal();
  return write_signature(head(MessageType::kConsistency), sign(*identity_, survivors_digest(id_, survivors_)));
}

Bytes SumClient::check_signatures(ByteView message) {
  const Digest expected = survivors_digest(id_, survivors_);
  std::size_t valid = 0;
  for (const SignedBy& entry : demand_read(read_signatures(message), "the list of signatures")) {
    demand(std::binary_search(survivors_.begin(), survivors_.end(), entry.client), "a signature of a stranger");
    if (!std::binary_search(neighbours_.begin(), neighbours_.end(), entry.client)) continue;
    const auto identity = session_.identities.find(entry.client);
    demand(identity != session_.identities.end() && verify(identity->second, expected, entry.signature),
           "a neighbour was told of other survivors");
    ++valid;
  }
  demand(valid >= session_.parameters.threshold, "too few neighbours confirm the list of survivors");
  return reveal();
}

Bytes SumClient::reveal() const {
  std::vector<RevealedShare> revealed;
  for (const auto& [client, held] : held_) {
    const bool survived = std::binary_search(survivors_.begin(), survivors_.end(), client);
    RevealedShare entry;
    entry.client = client;
    entry.kind = survived ? RevealedShare::Kind::kOwnMask : RevealedShare::Kind::kMaskingKey;
    std::copy_n((survived ? held.own_mask : held.masking_key).data(), Share::size(), entry.share.data());
    revealed.push_back(std::move(entry));
  }
  return write_revealed(head(MessageType::kUnmask), revealed);
}

void SumClient::wipe_secrets() {
  own_seed_.clear();
  masking_seed_.clear();
  masking_.secret.clear();
  sealing_.secret.clear();
  held_.clear();
  input_.forget();
}

}  // namespace chorus::inline secure
