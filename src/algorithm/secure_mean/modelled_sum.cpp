#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithm/federated/read_updates.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/secure_mean.h"
#include "algorithm/secure_mean/sum_cost.h"
#include "core/base/rng.h"

namespace chorus::inline secure_mean {

Aggregated SecureMean::modelled_sum(AggregationInput& input) const {
  const SumPlan plan = plan_for(input);
  const InputCodec codec(plan);
  const SumParameters parameters = plan.parameters(codec.length());
  const std::uint64_t round = input.request.round;
  const std::size_t first = plan.rare > 0 ? steps() : 0;  // asks of the sum that counts rows
  const auto alive = [&](ClientId client, std::size_t step) { return first + step < vanishes_before(input, client); };
  std::vector<ClientReport> reports(input.cohort.size());
  std::vector<Member> staying;
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < input.cohort.size(); ++slot) {
    reports[slot].failure = "it vanished (simulated)";
    reports[slot].left_out = true;
    if (!alive(input.cohort[slot].client, 2)) continue;
    staying.push_back(input.cohort[slot]);
    slots.push_back(slot);
  }
  const std::string lost = modelled_failure(plan, parameters, sorted_ids(input.cohort), alive, mix(plan.seed, round));
  if (!lost.empty()) {
    for (const std::size_t slot : slots) reports[slot] = {.failure = "the secure sum was abandoned: " + lost};
    return abandoned_sum(input, std::move(reports), lost);
  }

  RingVector sum(plan.ring_bits(), codec.length());
  AggregationInput plain = input;
  plain.cohort = staying;
  std::vector<std::string> faults(staying.size());
  UpdateReader reader;
  struct Waiting {
    std::size_t slot;
    WorkFacts facts;
    std::vector<at::Tensor> tensors;
  };
  std::vector<Waiting> waiting;  // until it is known which rows are rare
  const auto encode = [&](const Waiting& from) {
    auto part = codec.encode(from.tensors, from.facts, staying[from.slot].client);
    if (part) {
      sum.add(part.value());
    } else {
      faults[from.slot] = part.failure().message;
    }
  };
  reader.use = [&](std::size_t slot, const std::vector<double>& weights, const std::vector<at::Tensor>& tensors) {
    Waiting from{slot, {}, tensors};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!plan.tensors[i].equal) from.facts.weight = weights[i];
    }
    plan.rare > 0 ? waiting.push_back(std::move(from)) : encode(from);
  };
  reader.skip = [](std::size_t) {};
  std::vector<ClientReport> plain_reports = read_updates(plain, reader);
  if (!waiting.empty()) {
    RingVector counts(plan.ring_bits(), rows_of(tables_));
    for (const Waiting& from : waiting) counts.add(touched_rows(from.tensors[0], tables_, plan.ring_bits()));
    Bytes allowed(counts.size());
    for (std::size_t row = 0; row < allowed.size(); ++row) {
      allowed[row] = static_cast<std::byte>(counts.at(row) >= plan.rare ? 1 : 0);
    }
    for (Waiting& from : waiting) {
      for (at::Tensor& tensor : from.tensors) tensor = without_rows(tensor, tables_, allowed);
      encode(from);
    }
  }
  const SumCost cost = cost_of(plan, parameters);
  const double update_bytes = 4 * static_cast<double>(plan.tensors.size()) * static_cast<double>(plan.size);
  std::size_t used = 0;
  for (std::size_t i = 0; i < staying.size(); ++i) {
    ClientReport& report = reports[slots[i]];
    report = std::move(plain_reports[i]);
    if (report.failure.empty() && !faults[i].empty()) report = {.failure = faults[i], .cost = report.cost};
    if (!report.failure.empty()) continue;
    add_cost(report.cost, cost, update_bytes);
    report.weight = std::min(report.weight, static_cast<double>(plan.scale.most_weight));
    ++used;
  }
  if (used < parameters.least_cohort) {
    const std::string why = fmt::format("only {} inputs arrived", used);
    for (ClientReport& report : reports) {
      if (report.failure.empty()) report = {.failure = "the secure sum was abandoned: " + why, .cost = report.cost};
    }
    return abandoned_sum(input, std::move(reports), why);
  }
  auto sums = codec.decode(sum, used);
  if (!sums) return abandoned_sum(input, std::move(reports), sums.failure().message);
  Aggregated result;
  for (const at::Tensor& mean : sums.value().means) result.means.push_back(mean.to(input.device));
  result.clients = std::move(reports);
  const auto clients = static_cast<double>(used);
  result.numbers = {{"secure_clients", clients},
                    {"secure_cut", sums.value().cut},
                    {"secure_bytes_up", clients * cost.bytes_up},
                    {"secure_bytes_down", clients * cost.bytes_down}};
  return result;
}

}  // namespace chorus::inline secure_mean
