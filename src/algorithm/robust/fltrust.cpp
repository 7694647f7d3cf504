#include "algorithm/robust/fltrust.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <optional>

#include "algorithm/federated/read_updates.h"
#include "core/base/error.h"

namespace chorus::inline robust {

void FlTrustConfig::describe(ConfigVisitor& visitor) {
  visitor.field("trusted", trusted, "the client that holds the server's own, clean data; asked in every round")
      .at_least(0);
}

at::Tensor trusted_mean(Rows rows, const at::Tensor& reference) {
  const double length = distances_to(std::span(&reference, 1), {})[0];
  const std::vector<double> norms = distances_to(rows, {});
  std::vector<double> weights;
  double trust = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double inner = rows[i].to(at::kDouble).dot(reference.to(rows[i].device(), at::kDouble)).item<double>();
    const double cosine = norms[i] > 0 && length > 0 ? std::max(0.0, inner / (norms[i] * length)) : 0;
    weights.push_back(norms[i] > 0 ? cosine * length / norms[i] : 0);
    trust += cosine;
  }
  if (!(trust > 0)) return {};
  for (double& weight : weights) weight /= trust;
  return weighted_sum(rows, weights);
}

Aggregated FlTrust::aggregate(AggregationInput input) {
  const auto trusted = static_cast<ClientId>(config_.trusted);
  if (input.federation.roster().find(trusted) == nullptr) {
    throw ConfigError(fmt::format("aggregation.trusted: there is no client {}", config_.trusted));
  }
  const std::uint64_t round = input.request.round;
  const std::size_t asked = input.cohort.size();
  std::vector<Member> members(input.cohort.begin(), input.cohort.end());
  std::size_t reference = asked;
  for (std::size_t i = 0; i < asked; ++i) {
    if (members[i].client == trusted) reference = i;
  }
  if (reference == asked) members.push_back({trusted, 1});
  input.cohort = members;
  std::vector<std::map<std::size_t, at::Tensor>> by_slot(input.tensors.size());
  UpdateReader reader;
  reader.use = [&](std::size_t slot, const std::vector<double>&, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) by_slot[i][slot] = tensors[i];
  };
  reader.skip = [](std::size_t) {};
  reader.least = least_updates();
  Aggregated result;
  result.clients = read_updates(input, reader);
  const std::string lost = result.clients[reference].failure;
  if (!lost.empty() && input.federation.real_time()) {
    throw TooFewReplies(fmt::format("round {}: the trusted client failed: {}", round, lost));
  }
  std::size_t others = 0;
  for (std::size_t i = 0; i < input.tensors.size(); ++i) {
    at::Tensor mean;
    const auto found = by_slot[i].find(reference);
    if (found != by_slot[i].end()) {
      std::vector<at::Tensor> rows;
      for (const auto& [slot, row] : by_slot[i]) {
        if (slot != reference) rows.push_back(row);
      }
      others = rows.size();
      mean = trusted_mean(rows, found->second);
    }
    // An algorithm with several tensors takes a step with all of them or with none.
    const bool steps = i > 0 && result.means.front().defined();
    result.means.push_back(steps && !mean.defined() ? at::zeros_like(found->second) : std::move(mean));
  }
  result.clients.resize(asked);
  if (result.means.front().defined()) return result;
  const std::string why = !lost.empty() ? "the trusted client failed: " + lost
                          : others == 0 ? "there is no update besides the trusted one"
                                        : "no update points the same way as the trusted one";
  for (ClientReport& report : result.clients) {
    if (report.failure.empty()) report = {.failure = why, .cost = report.cost};
  }
  return result;
}

namespace {

const Registration<Aggregations, FlTrustConfig> kRegisteredFlTrust{
    "fltrust", "updates count as far as they point the way of the server's own (Cao et al. 2021)",
    [](const FlTrustConfig& config) { return std::make_unique<FlTrust>(config); }, FlTrust::kTraits};

}  // namespace
}  // namespace chorus::inline robust
