#include "algorithm/federated/collect.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tensor/flat_math.h"

namespace chorus {

double weight_of(const Reply& reply, Weighting weighting) {
  switch (weighting) {
    case Weighting::kExamples:
      return reply.body.number("examples");
    case Weighting::kBatches:
      return reply.body.number("batches", reply.body.number("examples"));
    case Weighting::kEqual:
      return 1;
  }
  return 1;
}

namespace {

bool finite(const at::Tensor& x) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous()) {
    return all_finite(x.data_ptr<float>(), x.numel());
  }
  return at::isfinite(x).all().item<bool>();
}

}  // namespace

std::string fault_of(const Reply& reply, std::span<const std::string> tensors, std::int64_t size) {
  for (const std::string& name : tensors) {
    const at::Tensor& tensor = reply.body.vector(name, size);
    if (name != reply.finite && !finite(tensor)) return "its " + name + " has numbers that are not finite";
  }
  const double examples = reply.body.number("examples");
  if (!(examples > 0) || !std::isfinite(examples)) return "it says that it has no examples";
  if (!std::isfinite(reply.body.number("loss", 0))) return "its loss is not a number";
  return "";
}

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

LocalTraining train_from_model(const Request& request, Workbench& bench, TrainWish wish) {
  wish.updates = true;
  LocalTraining local{bench.train(request.body.vector("model", bench.parameters()), wish), {}};
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
        {"reach", result.normalizer[i]},  {"seconds", seconds},           {"rate_sum", result.rate_sum[i]},
        {"loss", result.loss[i]}};
    local.answers.push_back(std::move(answer));
  }
  return local;
}

Request request_with_model(const RoundInput& input, std::string procedure) {
  Request request{std::move(procedure), input.round, {}};
  // A copy: the algorithm changes the model in place while a reader may still hold the request.
  request.body.tensors["model"] = input.model.clone();
  return request;
}

Collected collect(const RoundInput& input, Request request, const CollectPlan& plan) {
  std::vector<Member> members(input.cohort.begin(), input.cohort.end());
  const auto sizes = input.federation.sizes();
  std::sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
    return sizes[a.client] != sizes[b.client] ? sizes[a.client] > sizes[b.client] : a.client < b.client;
  });
  std::vector<ClientId> clients;
  for (const Member& member : members) clients.push_back(member.client);

  std::vector<WeightedMean> means(plan.tensors.size(), WeightedMean(members.size()));
  struct Row {
    double weight = 0, examples = 0, steps = 0, loss = 0, seconds = 0;
  };
  std::vector<Row> rows(members.size());  // summed in the order of the slots, whenever they arrive
  std::vector<std::string> failures(members.size(), "it did not answer");
  std::vector<Cost> costs(members.size());
  std::vector<bool> left_out(members.size(), false);
  for (Reply& reply : input.federation.ask(clients, std::move(request))) {
    std::string& failure = failures.at(reply.slot);
    costs[reply.slot] = reply.cost;
    left_out[reply.slot] = reply.left_out;
    try {
      failure = reply.ok() ? fault_of(reply, plan.tensors, input.model.size(0)) : reply.failure;
    } catch (const DataError& error) {
      failure = error.what();
    }
    if (!failure.empty()) {
      for (WeightedMean& mean : means) mean.skip(reply.slot);
      continue;
    }
    const double weight = weight_of(reply, input.weighting) * members[reply.slot].times;
    if (plan.look) plan.look(reply, weight);
    for (std::size_t i = 0; i < means.size(); ++i) {
      means[i].add(reply.slot, weight, reply.body.tensor(plan.tensors[i]));
    }
    rows[reply.slot] = {weight, reply.body.number("examples"), reply.body.number("steps", 1),
                        reply.body.number("loss", 0), reply.body.number("seconds", 0)};
  }

  Collected collected;
  double weights = 0;
  for (std::size_t slot = 0; slot < rows.size(); ++slot) {
    if (!failures[slot].empty()) collected.result.failed.emplace_back(clients[slot], failures[slot]);
    if (left_out[slot]) collected.result.emulated.left_out.push_back(clients[slot]);
    weights += rows[slot].weight;
    collected.result.examples += rows[slot].examples;
    collected.result.steps += rows[slot].steps;
    collected.result.seconds += rows[slot].seconds;
    collected.result.loss += rows[slot].weight * rows[slot].loss;
  }
  collected.result.loss = weights > 0 ? collected.result.loss / weights : std::nan("");
  collected.result.emulated.totals = cost_of_asking(costs);
  for (WeightedMean& mean : means) collected.means.push_back(mean.result());
  return collected;
}

}  // namespace chorus
