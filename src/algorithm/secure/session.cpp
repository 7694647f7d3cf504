#include "algorithm/secure/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/rng.h"

namespace chorus::inline secure {

const char* name_of(Trust trust) { return trust == Trust::kActive ? "active server" : "semi-honest server"; }

std::string SumParameters::mistake() const {
  if (ring_bits != 32 && ring_bits != 64) return fmt::format("a ring of {} bits; it has 32 or 64", ring_bits);
  if (length == 0) return "there is nothing to sum";
  if (threshold < 2 || threshold > neighbours) {
    return fmt::format("threshold {} of {} neighbours; it must be 2 to {}", threshold, neighbours, neighbours);
  }
  if (threshold <= colluding) {
    return fmt::format("threshold {} does not exceed the {} neighbours that may collude", threshold, colluding);
  }
  if (trust == Trust::kActive && 2 * threshold <= neighbours + colluding) {
    return fmt::format("threshold {} is too low for an active server: 2t must exceed {} neighbours + {} colluding",
                       threshold, neighbours, colluding);
  }
  if (least_cohort < 2) return "a sum over one client is its input; least_cohort must be at least 2";
  return "";
}

SumParameters complete_graph(std::size_t clients, Trust trust) {
  SumParameters parameters;
  parameters.trust = trust;
  parameters.neighbours = clients > 0 ? clients - 1 : 0;
  const std::size_t k = parameters.neighbours;
  parameters.colluding = trust == Trust::kActive ? clients / 3 : k / 2;
  parameters.threshold = trust == Trust::kActive ? (k + parameters.colluding) / 2 + 1 : k / 2 + 1;
  parameters.least_cohort = std::max<std::size_t>(2, parameters.threshold);
  return parameters;
}

Digest SumSession::context() const {
  Hash hash("chorus secure sum 1");
  const SumParameters& p = parameters;
  hash.add(p.trust == Trust::kActive ? 1 : 0).add(p.neighbours).add(p.threshold).add(p.colluding);
  hash.add(p.least_cohort).add(p.ring_bits).add(p.length).add(nonce).add(agreed).add(cohort.size());
  for (const ClientId client : cohort) hash.add(client);
  hash.add(identities.size());
  for (const auto& [client, key] : identities) hash.add(client).add(key);
  return hash.digest();
}

NeighbourGraph graph_of(const Digest& session, std::size_t clients, std::size_t k) {
  std::vector<std::uint32_t> order(clients);
  std::iota(order.begin(), order.end(), 0U);
  std::uint64_t seed = 0;
  const Digest drawn = Hash("chorus secure sum graph").add(session).digest();
  std::memcpy(&seed, drawn.data(), sizeof(seed));
  RandomStream stream({.seed = seed, .purpose = "neighbours"});
  stream.shuffle(std::span(order));
  return {std::move(order), k};
}

}  // namespace chorus::inline secure
