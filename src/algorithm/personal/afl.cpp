#include "algorithm/personal/afl.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/weighted_mean.h"
#include "algorithm/personal/start_loss.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

const Registration<Algorithms, AflConfig> kRegisteredAfl{
    "afl",
    "the best model for the worst mixture of clients (Mohri et al. 2019)",
    [](const AflConfig& config) { return std::make_unique<Afl>(config); },
    {.individual_updates = true, .own_mean = true}};

}  // namespace

std::vector<double> on_simplex(std::vector<double> point) {
  std::vector<double> sorted = point;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0, shift = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const double candidate = (sum - 1) / static_cast<double>(i + 1);
    if (sorted[i] - candidate > 0) shift = candidate;
  }
  for (double& x : point) x = std::max(x - shift, 0.0);
  return point;
}

void AflConfig::describe(ConfigVisitor& visitor) {
  visitor.field("rate", rate, "step size of the clients' weights; 0: they stay equal").at_least(0);
}

RoundResult Afl::round(const RoundInput& input) {
  if (weights_.empty()) {
    const auto clients = static_cast<double>(input.federation.roster().trainable());
    for (const RosterEntry& member : input.federation.roster().members()) {
      if (input.federation.roster().size_of(member.id) > 0) weights_[member.id] = 1 / clients;
    }
  }
  WeightedMean mean(input.cohort.size());
  std::map<ClientId, double> losses;
  CollectPlan plan;
  plan.look = [&](Reply& reply, double) {
    const double loss = start_loss(reply);
    const auto found = weights_.find(reply.client);
    const double weight = found == weights_.end() ? 0 : found->second;  // a client that joined later has none yet
    losses[reply.client] = loss;
    // A client of weight 0 returns once its loss is high.
    mean.add(reply.slot, weight, reply.body.tensor("update").to(input.model.device()));
  };
  Collected collected = collect(input, request_with_model(input, "fair/train"), plan);
  if (const at::Tensor update = mean.result(); update.defined()) input.model.add_(update);
  if (losses.empty()) return std::move(collected.result);
  for (const auto& [client, loss] : losses) weights_[client] += config_.rate * loss;
  std::vector<double> point;
  for (const auto& entry : weights_) point.push_back(entry.second);
  point = on_simplex(std::move(point));
  std::size_t next = 0;
  for (auto& entry : weights_) entry.second = point[next++];
  collected.result.numbers["largest_weight"] = *std::max_element(point.begin(), point.end());
  return std::move(collected.result);
}

std::map<std::string, at::Tensor> Afl::state() const {
  if (weights_.empty()) return {};
  const at::Tensor rows = at::empty({static_cast<std::int64_t>(weights_.size()), 2}, at::kDouble);
  auto* out = rows.data_ptr<double>();
  for (const auto& [client, weight] : weights_) {
    *out++ = client;
    *out++ = weight;
  }
  return {{"weights", rows}};
}

void Afl::restore(const std::map<std::string, at::Tensor>& state) {
  const auto found = state.find("weights");
  if (found == state.end()) return;
  if (found->second.dim() != 2 || found->second.size(1) != 2 || found->second.scalar_type() != at::kDouble) {
    throw DataError("the checkpoint does not hold what afl remembers");
  }
  const at::Tensor rows = found->second.cpu().contiguous();
  const auto* values = rows.data_ptr<double>();
  for (std::int64_t i = 0; i < rows.size(0); ++i) weights_[static_cast<ClientId>(values[2 * i])] = values[2 * i + 1];
}

}  // namespace chorus::inline personal
