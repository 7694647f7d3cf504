#include "algorithm/personal/q_fedavg.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "algorithm/federated/weighted_mean.h"
#include "algorithm/personal/start_loss.h"
#include "core/base/error.h"

namespace chorus::inline personal {
namespace {

const Registration<Algorithms, QFedAvgConfig> kRegisteredQFedAvg{
    "q_fedavg",
    "clients with a high loss count more (Li et al. 2020)",
    [](const QFedAvgConfig& config) { return std::make_unique<QFedAvg>(config); },
    {.individual_updates = true, .own_mean = true}};
}  // namespace

void QFedAvgConfig::describe(ConfigVisitor& visitor) {
  visitor.field("q", q, "weight of clients with a high loss; 0: all count the same").at_least(0);
}

RoundResult QFedAvg::round(const RoundInput& input) {
  const double q = config_.q;
  WeightedMean mean(input.cohort.size());
  std::map<std::size_t, double> steps;  // h_k by slot, which fixes the order of the sum
  CollectPlan plan;
  plan.look = [&](Reply& reply, double) {
    const double loss = start_loss(reply), rates = reply.body.number("rate_sum"), made = reply.body.number("steps");
    if (!(rates > 0 && made > 0 && std::isfinite(rates) && std::isfinite(made))) {
      throw DataError("its learning rates should be positive numbers");
    }
    const double inverse = made / rates;  // L
    const at::Tensor change = reply.body.tensor("update").to(input.model.device());
    const double length2 = change.to(at::kDouble).square().sum().item<double>() * inverse * inverse;
    const double power = std::pow(loss, q);
    const double step = q * std::pow(loss, q - 1) * length2 + inverse * power;
    const at::Tensor move = change * (power * inverse);  // -D_k
    if (!std::isfinite(step) || !at::isfinite(move).all().item<bool>()) throw DataError("its loss is out of range");
    steps[reply.slot] = step;
    mean.add(reply.slot, 1, move);
  };
  Collected collected = collect(input, request_with_model(input, "fair/train"), plan);
  const at::Tensor moves = mean.result();
  if (!moves.defined()) return std::move(collected.result);
  double sum = 0;
  for (const auto& entry : steps) sum += entry.second;
  input.model.add_(moves, static_cast<double>(steps.size()) / sum);
  return std::move(collected.result);
}

}  // namespace chorus::inline personal
