#include "algorithm/personal/own_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/scoring.h"
#include "algorithm/personal/fine_tuning.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline personal {
namespace {

// A request about the model becomes one about the version that is used now.
Request version_of(const OwnScoresInput& input, Request request) {
  const Variant variant = input.algorithm.variant();
  if (input.variants == nullptr || variant == Variant{}) return request;
  if (request.body.has_tensor("model")) request.body.tensors["model"] = input.variants->take(variant, input.model);
  write_variant(variant, request.body);
  return request;
}

}  // namespace

std::vector<ClientId> draw_newcomers(std::span<const double> sizes, double share, std::uint64_t seed) {
  std::vector<ClientId> clients;
  for (std::size_t client = 0; client < sizes.size(); ++client) {
    if (sizes[client] > 0) clients.push_back(static_cast<ClientId>(client));
  }
  RandomStream stream({.seed = seed, .purpose = "newcomers"});
  stream.shuffle(std::span(clients));
  clients.resize(static_cast<std::size_t>(std::floor(share * static_cast<double>(clients.size()) + 1e-9)));
  std::sort(clients.begin(), clients.end());
  return clients;
}

std::vector<OwnScore> own_scores(const OwnScoresInput& input, const OwnScoresPlan& plan) {
  const Roster& roster = input.federation.roster();
  std::vector<ClientId> clients;
  const auto is_newcomer = [&](ClientId client) {
    return std::binary_search(plan.newcomers.begin(), plan.newcomers.end(), client);
  };
  for (const RosterEntry& member : roster.members()) {
    if (roster.size_of(member.id) > 0 && !is_newcomer(member.id)) clients.push_back(member.id);
  }
  if (plan.clients > 0 && plan.clients < clients.size()) {
    RandomStream stream({.seed = plan.seed, .purpose = "own scores"});
    stream.shuffle(std::span(clients));
    clients.resize(plan.clients);
  }
  clients.insert(clients.end(), plan.newcomers.begin(), plan.newcomers.end());
  std::sort(clients.begin(), clients.end());

  std::vector<OwnScore> scores;
  for (const ClientId client : clients) scores.push_back({client, is_newcomer(client), roster.size_of(client)});
  std::size_t failed = 0;
  std::string why;
  const auto ask = [&](const char* name, Request request) {
    for (Reply& reply : input.federation.ask(clients, std::move(request))) {
      if (!reply.ok()) {
        ++failed;
        why = reply.failure;
      } else if (!reply.body.texts.empty()) {
        const Scores one = input.scorer.pooled({{reply.client, reply.body}});
        const auto found = one.find(plan.metric);
        if (found != one.end() && std::isfinite(found->second)) scores[reply.slot].scores[name] = found->second;
      }
    }
  };
  const bool useful = !input.traits.personal && !input.traits.partial && !input.traits.any_network;
  if (useful) ask("global", version_of(input, evaluate_request(input.model, input.round)));
  if (useful && plan.fine_tuning > 0) {
    ask("fine-tuned", version_of(input, fine_tuning_request(input.model, input.round, plan.fine_tuning)));
  }
  if (input.traits.own_models) {
    ask("own", version_of(input, input.algorithm.ask_own_models(input.model, input.round, clients)));
  }
  if (plan.alone > 0) ask("alone", version_of(input, alone_request(input.round, plan.alone)));
  if (failed > 0) Log("clients").warning("{} answers about clients' own models are missing: {}", failed, why);
  std::erase_if(scores, [](const OwnScore& score) { return score.scores.empty(); });
  return scores;
}

}  // namespace chorus::inline personal
