#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithm/federated/read_updates.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/secure_mean.h"
#include "algorithm/secure_mean/sum_cost.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline secure_mean {

namespace {

constexpr const char* kVanished = "it vanished (simulated)";

/// Members of a cohort, and their slots in it.
struct Part {
  std::vector<Member> members;
  std::vector<std::size_t> slots;
};

template <typename Stays>
Part part_of_cohort(std::span<const Member> cohort, const Stays& stays) {
  Part part;
  for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
    if (!stays(cohort[slot].client)) continue;
    part.members.push_back(cohort[slot]);
    part.slots.push_back(slot);
  }
  return part;
}

/// What a client sends, in the clear.
struct PlainInput {
  std::size_t slot = 0;  // among those who were asked
  WorkFacts facts = {};
  std::vector<at::Tensor> tensors = {};
};

}  // namespace

// Those who vanish after the first ask train, too, as they do in a real sum: a cohort without them would be cut into
// other batches, and its updates would differ by rounding.
Aggregated SecureMean::modelled_sum(AggregationInput& input) const {
  const SumPlan counting = plan_for(input);
  const bool rare = counting.rare > 0;  // a sum that counts rows comes first
  const std::size_t last = rare ? steps() : 0;
  const std::uint64_t round = input.request.round;
  const auto alive = [&](ClientId client, std::size_t step) { return step < vanishes_before(input, client); };
  const auto alive_late = [&](ClientId client, std::size_t step) { return alive(client, last + step); };
  std::vector<ClientReport> reports(input.cohort.size());
  for (ClientReport& report : reports) report = {.failure = kVanished, .left_out = true};
  const auto abandon = [&](const std::string& why) {
    for (std::size_t slot = 0; slot < reports.size(); ++slot) {
      ClientReport& report = reports[slot];
      if (!report.failure.empty() && report.failure != kVanished) continue;
      const bool stayed = alive(input.cohort[slot].client, 2 * steps());
      report = {.failure = stayed ? kAbandoned + why : kVanished, .left_out = !stayed, .cost = report.cost};
    }
    return abandoned_sum(input, std::move(reports), why);
  };
  if (rare) {
    const std::string lost = modelled_failure(counting, counting.parameters(rows_of(tables_)), sorted_ids(input.cohort),
                                              alive, mix(counting.seed, round));
    if (!lost.empty()) return abandon(lost);
  }
  const Part asked = part_of_cohort(input.cohort, [&](ClientId client) { return alive(client, 0); });
  const Part invited = part_of_cohort(input.cohort, [&](ClientId client) { return !rare || alive(client, 2); });
  AggregationInput values = input;
  values.cohort = invited.members;
  const SumPlan plan = plan_for(values);
  if (const std::string fault = fault_of(plan); !fault.empty()) return abandon(fault);
  const InputCodec codec(plan);
  const SumParameters parameters = plan.parameters(codec.length());
  const std::string lost =
      modelled_failure(plan, parameters, sorted_ids(invited.members), alive_late, mix(plan.seed, round + last));
  if (!lost.empty()) return abandon(lost);

  RingVector sum(plan.ring_bits(), codec.length());
  std::vector<std::string> faults(asked.members.size());
  std::vector<PlainInput> waiting;  // until it is known which rows are rare
  const auto encode = [&](const PlainInput& from) {
    auto part = codec.encode(from.tensors, from.facts, asked.members[from.slot].client);
    if (part) {
      sum.add(part.value());
    } else {
      faults[from.slot] = part.failure().message;
    }
  };
  AggregationInput plain = input;
  plain.cohort = asked.members;
  // In a sum of counts, but not in that of the values.
  std::vector<at::Tensor> only_counted;
  plain.look = [&](Reply& reply, double) {
    if (alive_late(reply.client, 2)) return;
    if (rare && alive(reply.client, 2))
      only_counted.push_back(reply.body.tensor(plan.tensors[0].name).to(input.device));
    throw DataError(kVanished);
  };
  UpdateReader reader;
  reader.use = [&](std::size_t slot, const std::vector<double>& weights, const std::vector<at::Tensor>& tensors) {
    PlainInput from{slot, {}, tensors};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!plan.tensors[i].equal) from.facts.weight = weights[i];
    }
    rare ? waiting.push_back(std::move(from)) : encode(from);
  };
  reader.skip = [](std::size_t) {};
  std::vector<ClientReport> plain_reports = read_updates(plain, reader);
  double rows_left_out = 0;
  if (!waiting.empty()) {
    RingVector counts(plan.ring_bits(), rows_of(tables_));
    for (const PlainInput& from : waiting) counts.add(touched_rows(from.tensors[0], tables_, plan.ring_bits()));
    for (const at::Tensor& update : only_counted) counts.add(touched_rows(update, tables_, plan.ring_bits()));
    Bytes allowed(counts.size());
    for (std::size_t row = 0; row < allowed.size(); ++row) {
      allowed[row] = static_cast<std::byte>(counts.at(row) >= plan.rare ? 1 : 0);
      rows_left_out += counts.at(row) > 0 && counts.at(row) < plan.rare ? 1 : 0;
    }
    for (PlainInput& from : waiting) {
      for (at::Tensor& tensor : from.tensors) tensor = without_rows(tensor, tables_, allowed);
      encode(from);
    }
  }
  SumCost cost = cost_of(plan, parameters);
  if (rare) {
    cost += cost_of(counting, counting.parameters(rows_of(tables_)));
    cost.bytes_down += static_cast<double>(rows_of(tables_));  // which of them are summed
  }
  const double update_bytes = 4 * static_cast<double>(plan.tensors.size()) * static_cast<double>(plan.size);
  std::size_t used = 0;
  for (std::size_t i = 0; i < asked.members.size(); ++i) {
    ClientReport& report = reports[asked.slots[i]];
    report = std::move(plain_reports[i]);
    report.left_out = report.left_out || report.failure == kVanished;
    if (report.failure.empty() && !faults[i].empty()) report = {.failure = faults[i], .cost = report.cost};
    if (!report.failure.empty()) continue;
    add_cost(report.cost, cost, update_bytes);
    report.weight = std::min(report.weight, static_cast<double>(plan.scale.most_weight));
    ++used;
  }
  if (used < parameters.least_cohort) return abandon(fmt::format("only {} inputs arrived", used));
  auto sums = codec.decode(sum, used);
  if (!sums) return abandon(sums.failure().message);
  Aggregated result;
  for (const at::Tensor& mean : sums.value().means) result.means.push_back(mean.to(input.device));
  result.clients = std::move(reports);
  const auto clients = static_cast<double>(used);
  result.numbers = numbers_of(sums.value(), used, rare ? std::optional(rows_left_out) : std::nullopt);
  result.numbers["secure_bytes_up"] = clients * cost.bytes_up;
  result.numbers["secure_bytes_down"] = clients * cost.bytes_down;
  return result;
}

}  // namespace chorus::inline secure_mean
