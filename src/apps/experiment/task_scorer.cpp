#include "apps/experiment/task_scorer.h"

#include <fmt/format.h>

#include <map>

#include "application/trainer/client_pool.h"
#include "core/base/error.h"

namespace chorus::inline experiment {
namespace {

std::string client_name(ClientId client) { return fmt::format("{:08}", client); }

std::vector<ClientGroupScores> reports(const std::vector<GroupScores>& groups) {
  std::vector<ClientGroupScores> result;
  for (const GroupScores& group : groups) result.push_back({group.name, group.clients, group.scores});
  return result;
}

}  // namespace

Scores TaskScorer::score(const at::Tensor& model, const Variant& variant) {
  const TunedNetwork::Part part = input_.network.part(variant);
  Params params = Params::copies_of_start(part.params, 1, false, input_.network.take(variant, model));
  if (input_.precision == TrainerConfig::Precision::kBFloat16) params = params.with_shadow();
  EvaluateOptions options;
  options.seed = input_.seed;
  options.workers = input_.workers;
  options.cache = input_.cache;
  Scores scores = evaluate(input_.task, part.model, params, input_.test, options).scores;
  if (input_.attacked != nullptr) {
    options.cache = nullptr;  // keyed by example, and these have other texts
    scores["attack_success"] =
        evaluate(input_.task, part.model, params, *input_.attacked, options).scores.at("accuracy");
  }
  return scores;
}

std::string TaskScorer::fault_of(const Message& reply) const {
  try {
    if (!reply.texts.empty()) input_.task.metric(Keep::kTotals)->add_totals(totals_of(reply));
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

Scores TaskScorer::pooled(const ClientTotals& totals) const {
  const auto metric = input_.task.metric(Keep::kTotals);
  for (const auto& entry : totals) {
    if (!entry.second.texts.empty()) metric->add_totals(totals_of(entry.second));
  }
  return metric->scores();
}

Breakdown TaskScorer::breakdown(const ClientTotals& totals) const {
  Breakdown result(input_.task.metric(Keep::kTotals));
  for (const auto& [client, message] : totals) {
    if (message.texts.empty()) continue;
    result.client(client_name(client)).add_totals(totals_of(message));
    result.set_activity(client_name(client), input_.clients.roster().size_of(client));
  }
  return result;
}

std::vector<ClientGroupScores> TaskScorer::deciles(const ClientTotals& totals) const {
  return reports(breakdown(totals).by_decile());
}

std::vector<ClientGroupScores> TaskScorer::by_client(const ClientTotals& totals) const {
  std::map<std::string, std::string> names;
  for (const auto& [client, message] : totals) {
    const RosterEntry* entry = input_.clients.roster().find(client);
    const bool named = entry != nullptr && !entry->name.empty();
    names[client_name(client)] = named ? entry->name : fmt::format("client {}", client);
  }
  std::vector<ClientGroupScores> result = reports(breakdown(totals).by_client());
  for (ClientGroupScores& client : result) client.name = names.at(client.name);
  return result;
}

}  // namespace chorus::inline experiment
