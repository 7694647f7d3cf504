#include "algorithm/secure/light_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>

#include "core/base/byte_reader.h"
#include "core/base/error.h"

namespace chorus::inline secure {
std::string light_mistake(const SumParameters& parameters) {
  if (parameters.trust != Trust::kSemiHonest) return "LightSecAgg is for a semi-honest server";
  return parameters.mistake();
}

MaskCode code_of(const SumParameters& parameters) {
  return {.clients = parameters.neighbours,
          .privacy = parameters.colluding,
          .enough = parameters.threshold,
          .length = parameters.length + 1};
}

Digest light_context(const SumSession& session) { return Hash("chorus LightSecAgg 1").add(session.context()).digest(); }

std::uint64_t checksum_seed(const Digest& context) {
  std::uint64_t seed = 0;
  const Digest drawn = Hash("chorus LightSecAgg checksum").add(context).digest();
  std::memcpy(&seed, drawn.data(), sizeof(seed));
  return seed;
}

SumParameters light_parameters(std::size_t clients, double corrupt, double dropout) {
  const auto share = [&](double of) { return static_cast<std::size_t>(of * static_cast<double>(clients) + 1e-9); };
  SumParameters parameters;
  parameters.neighbours = clients;
  parameters.colluding = std::max<std::size_t>(1, share(corrupt));
  parameters.threshold = clients - std::min(clients, share(dropout));
  parameters.least_cohort = std::max<std::size_t>(2, parameters.threshold);
  return parameters;
}

Bytes write_coded(const MessageHead& head, const std::vector<SealedShare>& shares) {
  Bytes bytes = begin_message(head, shares.empty() ? 0 : shares.size() * (4 + shares.front().sealed.size()));
  for (const SealedShare& entry : shares) {
    const ByteView id = std::as_bytes(std::span(&entry.client, 1));
    bytes.insert(bytes.end(), id.begin(), id.end());
    bytes.insert(bytes.end(), entry.sealed.begin(), entry.sealed.end());
  }
  return end_message(std::move(bytes));
}

std::optional<std::vector<SealedShare>> read_coded(ByteView bytes, std::size_t words) {
  const std::size_t size = words + kSealOverhead;
  const auto body = body_of(bytes);
  if (!body || body->size() % (4 + size) != 0) return std::nullopt;
  ByteReader reader(*body);
  std::vector<SealedShare> shares;
  while (reader.left() > 0) {
    const auto client = reader.take<ClientId>();
    if (!shares.empty() && client <= shares.back().client) return std::nullopt;
    const ByteView sealed = reader.bytes(size);
    shares.push_back({client, Bytes(sealed.begin(), sealed.end())});
  }
  return shares;
}

LightClient::LightClient(SumSession session, ClientId self, RingVector input)
    : PhasedClient(std::move(session), self, light_context),
      code_(code_of(session_.parameters)),
      input_(session_.parameters.ring_bits, session_.parameters.length + 1),
      pieces_(session_.parameters.ring_bits, 0) {
  if (const std::string mistake = light_mistake(session_.parameters); !mistake.empty()) {
    throw ConfigError("secure sum: " + mistake);
  }
  check(session_.cohort.size() == code_.clients, "LightSecAgg's N is everybody invited");
  check(input.bits() == input_.bits() && input.size() + 1 == input_.size(), "an input of another field or length");
  to_field(input);
  check(in_field(input), "an input outside the field");
  input_.place(0, input);
  input_.set(input.size(), field_checksum(input_, input.size(), checksum_seed(context_)));
  sealing_ = new_agreement_keys();
  last_reply_ = write_advertisement({MessageType::kAdvertise, self_, context_}, {self_, sealing_.open, {}, {}, {}});
}

std::size_t LightClient::place_of(ClientId client) const {
  const auto& cohort = session_.cohort;
  return static_cast<std::size_t>(std::lower_bound(cohort.begin(), cohort.end(), client) - cohort.begin());
}

Bytes LightClient::meet_keys(ByteView message) {
  auto keys = read_keys(message);
  demand(keys.has_value(), "the list of keys could not be read");
  keys_ = std::move(*keys);
  std::set<PublicKey> seen;
  bool own = false;
  for (const Advertisement& entry : keys_) {
    demand(std::binary_search(session_.cohort.begin(), session_.cohort.end(), entry.client), "keys of a stranger");
    demand(seen.insert(entry.sealing).second, "a public key occurs twice");
    if (entry.client == self_) own = entry.sealing == sealing_.open;
  }
  demand(own, "this client's own keys are missing or changed");
  demand(keys_.size() >= std::max(session_.parameters.threshold, session_.parameters.least_cohort), "too few clients");
  id_ = session_id(context_, keys_);
  pieces_ = draw_mask(code_, session_.parameters.ring_bits);
  std::vector<RingVector> shares = code_shares(code_, pieces_);
  std::vector<SealedShare> sealed;
  for (const Advertisement& entry : keys_) {
    RingVector& share = shares[place_of(entry.client)];
    if (entry.client == self_) {
      held_.emplace(self_, std::move(share));
      continue;
    }
    const std::optional<Key> shared = agree(sealing_.secret, entry.sealing);
    demand(shared.has_value(), "an invalid public key");
    sealed.push_back({entry.client, seal(sealing_key(*shared, id_, self_, entry.client),
                                         sealing_bound(id_, self_, entry.client), share.bytes())});
  }
  for (RingVector& share : shares) share.forget();
  return write_coded({MessageType::kShares, self_, id_}, sealed);
}

Bytes LightClient::mask_input(ByteView message) {
  const unsigned bits = session_.parameters.ring_bits;
  const std::size_t bytes = code_.piece() * (bits / 8);
  const auto sealed = read_coded(message, bytes);
  demand(sealed.has_value(), "the shares could not be read");
  for (const SealedShare& entry : *sealed) {
    demand(entry_of(keys_, entry.client) != keys_.end() && entry.client != self_, "shares of a stranger");
    const std::optional<Key> shared = agree(sealing_.secret, keys_of(entry.client).sealing);
    const auto text =
        unseal(sealing_key(*shared, id_, entry.client, self_), sealing_bound(id_, entry.client, self_), entry.sealed);
    if (!text) continue;
    RingVector share(bits, code_.piece());
    share.add(text->view());
    if (in_field(share)) held_.emplace(entry.client, std::move(share));
    share.forget();
  }
  demand(held_.size() >= session_.parameters.threshold, "fewer readable shares than must stay");
  RingVector mask = pieces_.part(0, code_.length);
  add_in_field(input_, mask);
  mask.forget();
  Bytes reply = write_masked({MessageType::kMasked, self_, id_}, bits, input_.bytes());
  // A second input under the same mask would reveal the difference.
  pieces_.forget();
  sealing_.secret.clear();
  input_ = RingVector(bits, 0);
  return reply;
}

Bytes LightClient::meet_survivors(ByteView message) {
  const auto survivors = read_survivors(message);
  demand(survivors.has_value(), "the list of survivors could not be read");
  const SumParameters& parameters = session_.parameters;
  demand(survivors->size() >= std::max(parameters.threshold, parameters.least_cohort), "too few survivors");
  demand(std::binary_search(survivors->begin(), survivors->end(), self_), "this client is said to have vanished");
  RingVector sum(parameters.ring_bits, code_.piece());
  for (const ClientId client : *survivors) {
    const auto found = held_.find(client);
    demand(found != held_.end(), "a survivor whose share is not here");
    add_in_field(sum, found->second);
  }
  return write_masked({MessageType::kUnmask, self_, id_}, parameters.ring_bits, sum.bytes());
}

void LightClient::wipe_secrets() {
  for (auto& entry : held_) entry.second.forget();
  held_.clear();
  pieces_.forget();
  input_.forget();
  sealing_.secret.clear();
}

}  // namespace chorus::inline secure
