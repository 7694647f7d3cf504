#include "algorithm/federated/collect.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace chorus::inline federated {

EmulatedTotals cost_of_asking(std::span<const Cost> costs) {
  EmulatedTotals totals;
  double bytes = 0;
  for (const Cost& cost : costs) {
    totals.seconds = std::max(totals.seconds, cost.seconds);
    totals.memory = std::max(totals.memory, cost.memory);
    totals.joules += cost.joules;
    bytes += cost.bytes_down + cost.bytes_up;
  }
  const auto asked = static_cast<double>(std::max<std::size_t>(costs.size(), 1));
  totals.client_joules = totals.joules / asked;
  totals.client_bytes = bytes / asked;
  return totals;
}

void join(RoundResult& sum, RoundResult part) {
  const double examples = sum.examples + part.examples;
  if (part.examples > 0) {
    sum.loss = sum.examples > 0 ? (sum.loss * sum.examples + part.loss * part.examples) / examples : part.loss;
  }
  sum.examples = examples;
  sum.steps += part.steps;
  sum.seconds += part.seconds;
  sum.failed.insert(sum.failed.end(), part.failed.begin(), part.failed.end());
  EmulatedRound& all = sum.emulated;
  all.left_out.insert(all.left_out.end(), part.emulated.left_out.begin(), part.emulated.left_out.end());
  const EmulatedTotals& totals = part.emulated.totals;
  all.totals.seconds = std::max(all.totals.seconds, totals.seconds);
  all.totals.joules += totals.joules;
  all.totals.memory = std::max(all.totals.memory, totals.memory);
  all.totals.client_joules = std::max(all.totals.client_joules, totals.client_joules);
  all.totals.client_bytes = std::max(all.totals.client_bytes, totals.client_bytes);
}

TrainedCohort train_from_model(const Request& request, Workbench& bench, TrainWish wish) {
  wish.updates = true;
  TrainedCohort local{bench.train(request.body.vector("model", bench.parameters()), wish), {}};
  const TrainResult& result = local.result;
  const double seconds = result.seconds / static_cast<double>(bench.clients().size());
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    Answer answer;
    answer.failure = result.failures[i];
    if (answer.failure.empty() && !result.finite[i]) answer.failure = "its update has numbers that are not finite";
    answer.body.tensors["update"] = result.values[static_cast<std::int64_t>(i)];
    answer.finite = "update";
    answer.body.numbers = {
        {"examples", result.examples[i]}, {"batches", result.batches[i]}, {"steps", result.steps[i]},
        {"reach", result.normalizer[i]},  {"seconds", seconds},           {"rate_sum", result.rate_sum[i]}};
    // Not a number where it is not released.
    if (!std::isnan(result.loss[i])) answer.body.numbers["loss"] = result.loss[i];
    local.answers.push_back(std::move(answer));
  }
  return local;
}

Request request_with_model(const RoundInput& input, std::string procedure) {
  Request request{.procedure = std::move(procedure), .round = input.round};
  request.enough = input.enough;
  // A copy: the algorithm changes the model in place while a reader may still hold the request.
  request.body.tensors["model"] = input.model.clone();
  return request;
}

RoundInput part_of(const RoundInput& input, std::span<const Member> members, const at::Tensor& model) {
  RoundInput part = input;
  part.cohort = members;
  part.model = model;
  if (input.enough > 0) {
    const double share = static_cast<double>(members.size()) / static_cast<double>(input.cohort.size());
    part.enough = static_cast<std::size_t>(std::ceil(share * static_cast<double>(input.enough) - 1e-9));
  }
  return part;
}

std::vector<Member> asking_order(const RoundInput& input) {
  std::vector<Member> members(input.cohort.begin(), input.cohort.end());
  const Roster& roster = input.federation.roster();
  std::sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
    const double left = roster.size_of(a.client), right = roster.size_of(b.client);
    return left != right ? left > right : a.client < b.client;
  });
  return members;
}

Collected collect(const RoundInput& input, Request request, const CollectPlan& plan) {
  const std::vector<Member> members = asking_order(input);
  AggregationInput ask{.federation = input.federation, .cohort = members, .request = std::move(request)};
  ask.tensors = plan.tensors;
  ask.size = input.model.size(0);
  ask.device = input.model.device();
  ask.weighting = input.weighting;
  ask.seed = input.seed;
  ask.look = plan.look;
  Aggregated aggregated = input.aggregation.aggregate(std::move(ask));

  Collected collected;
  collected.means = std::move(aggregated.means);
  collected.result.numbers = std::move(aggregated.numbers);
  double weights = 0;  // of those that tell their loss
  std::vector<Cost> costs;
  for (std::size_t slot = 0; slot < members.size(); ++slot) {
    const ClientReport& report = aggregated.clients.at(slot);
    costs.push_back(report.cost);
    if (!report.failure.empty()) collected.result.failed.emplace_back(members[slot].client, report.failure);
    if (report.left_out) collected.result.emulated.left_out.push_back(members[slot].client);
    collected.result.examples += report.examples;
    collected.result.steps += report.steps;
    collected.result.seconds += report.seconds;
    if (std::isnan(report.loss)) continue;
    weights += report.weight;
    collected.result.loss += report.weight * report.loss;
  }
  collected.result.loss = weights > 0 ? collected.result.loss / weights : std::nan("");
  collected.result.emulated.totals = cost_of_asking(costs);
  return collected;
}

}  // namespace chorus::inline federated
