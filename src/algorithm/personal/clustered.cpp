#include "algorithm/personal/clustered.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline personal {
namespace {

const Registration<Algorithms, ClusteredConfig> kRegisteredClustered{
    "clustered",
    "clusters of clients whose updates point the same way (Sattler et al. 2020)",
    [](const ClusteredConfig& config) { return std::make_unique<Clustered>(config); },
    {.individual_updates = true, .own_mean = true, .own_models = true, .partial = true}};

// int64 [n, 2]: client, cluster.
at::Tensor pairs_of(const std::map<ClientId, std::int64_t>& members) {
  const at::Tensor pairs = at::empty({static_cast<std::int64_t>(members.size()), 2}, at::kLong);
  auto* out = pairs.data_ptr<std::int64_t>();
  for (const auto& [client, cluster] : members) {
    *out++ = client;
    *out++ = cluster;
  }
  return pairs;
}

}  // namespace

at::Tensor sketch_of(const at::Tensor& vector, std::int64_t size, std::uint64_t seed) {
  at::Tensor result = vector.detach().cpu().contiguous();
  if (result.numel() > size) {
    // One stream for buckets and signs, the same for every client.
    RandomStream stream({.seed = seed, .purpose = "sketch"});
    at::Tensor sums = at::zeros({size}, at::kFloat);
    auto* sum = sums.data_ptr<float>();
    const auto* x = result.data_ptr<float>();
    for (std::int64_t i = 0; i < result.numel(); ++i) {
      const std::uint32_t draw = stream.next_u32();
      const auto bucket =
          static_cast<std::int64_t>((static_cast<std::uint64_t>(draw >> 1) * static_cast<std::uint64_t>(size)) >> 31);
      sum[bucket] += (draw & 1U) != 0 ? x[i] : -x[i];
    }
    result = sums;
  }
  return result / result.norm().clamp_min(1e-30);
}

std::vector<std::int64_t> join_by_cosine(const at::Tensor& rows, std::int64_t groups) {
  const auto count = static_cast<std::size_t>(rows.size(0));
  const at::Tensor cosines = at::mm(rows.to(at::kDouble), rows.to(at::kDouble).t()).contiguous();
  // Sums of cosines between groups; those of a merged group are the sums of its two parts.
  std::vector<double> between(cosines.data_ptr<double>(), cosines.data_ptr<double>() + count * count);
  std::vector<double> size(count, 1);
  std::vector<std::size_t> group(count);
  for (std::size_t i = 0; i < count; ++i) group[i] = i;
  for (std::size_t left = count; left > static_cast<std::size_t>(std::max<std::int64_t>(groups, 1)); --left) {
    std::size_t first = count, second = count;
    double best = -2;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; size[a] > 0 && b < count; ++b) {
        if (size[b] <= 0) continue;
        const double mean = between[a * count + b] / (size[a] * size[b]);
        if (mean <= best) continue;
        best = mean;
        first = a;
        second = b;
      }
    }
    if (second == count) break;
    for (std::size_t c = 0; c < count; ++c) {
      between[first * count + c] += between[second * count + c];
      between[c * count + first] = between[first * count + c];
    }
    size[first] += size[second];
    size[second] = 0;
    std::replace(group.begin(), group.end(), second, first);
  }
  std::map<std::size_t, std::int64_t> numbers;
  std::vector<std::int64_t> result;
  for (const std::size_t g : group) {
    result.push_back(numbers.emplace(g, static_cast<std::int64_t>(numbers.size())).first->second);
  }
  return result;
}

void ClusteredConfig::describe(ConfigVisitor& visitor) {
  visitor.field("clusters", clusters, "number of groups (K)").at_least(1).at_most(4096);
  visitor.field("warm_up", warm_up, "first rounds of FedAvg, whose updates are compared").at_least(1);
  visitor.field("sketch", sketch, "elements of the sketch of an update").at_least(16);
}

RoundResult Clustered::warm_up(const RoundInput& input) {
  CollectPlan plan;
  plan.look = [&](Reply& reply, double) {
    sketches_[reply.client] = sketch_of(reply.body.tensor("update"), config_.sketch, input.seed);
  };
  Collected collected = collect(input, request_with_model(input, "train"), plan);
  if (collected.means[0].defined()) input.model.add_(collected.means[0]);
  if (input.round < static_cast<std::uint64_t>(config_.warm_up) || sketches_.empty())
    return std::move(collected.result);
  std::vector<at::Tensor> rows;
  for (const auto& entry : sketches_) rows.push_back(entry.second);
  const std::vector<std::int64_t> groups = join_by_cosine(at::stack(rows), config_.clusters);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(config_.clusters), 0);
  std::size_t next = 0;
  for (const auto& entry : sketches_) {
    ++sizes[static_cast<std::size_t>(groups[next])];
    members_[entry.first] = groups[next++];
  }
  Log("clustered")
      .info("round {}: {} clients in clusters of {}", input.round, members_.size(),
            fmt::format("{}", fmt::join(sizes, ", ")));
  sketches_.clear();
  clusters_.begin(input.model, config_.clusters);
  return std::move(collected.result);
}

RoundResult Clustered::round(const RoundInput& input) {
  if (!clusters_.defined()) return warm_up(input);
  Request request;
  for (const Member& member : asking_order(input)) {
    const auto found = members_.find(member.client);
    request.own.push_back(found == members_.end() ? Message{} : clusters_.told(found->second));
  }
  ClusterModels::Outcome outcome = clusters_.train(input, std::move(request));
  for (const ClusterModels::Choice& choice : outcome.choices) members_[choice.client] = choice.cluster;
  return std::move(outcome.result);
}

Request Clustered::ask_own_models(const at::Tensor& model, std::uint64_t round,
                                  std::span<const ClientId> clients) const {
  if (clusters_.defined()) return clusters_.ask(round, clients, members_);
  ClusterModels first;
  first.begin(model, 1);
  return first.ask(round, clients, {});
}

std::map<std::string, at::Tensor> Clustered::state() const {
  std::map<std::string, at::Tensor> state;
  if (clusters_.defined()) {
    state["models"] = clusters_.models();
    state["members"] = pairs_of(members_);
  } else if (!sketches_.empty()) {
    std::map<ClientId, std::int64_t> seen;
    std::vector<at::Tensor> rows;
    for (const auto& [client, sketch] : sketches_) {
      seen[client] = 0;
      rows.push_back(sketch);
    }
    state["seen"] = pairs_of(seen);
    state["sketches"] = at::stack(rows);
  }
  return state;
}

void Clustered::restore(const std::map<std::string, at::Tensor>& state) {
  const auto pairs = [&](const char* name, const auto& use) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dim() != 2 || found->second.size(1) != 2 ||
        found->second.scalar_type() != at::kLong) {
      throw DataError("the checkpoint does not hold what clustered clients remember");
    }
    const at::Tensor rows = found->second.cpu().contiguous();
    const auto* values = rows.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows.size(0); ++i) use(static_cast<ClientId>(values[2 * i]), values[2 * i + 1], i);
  };
  if (const auto models = state.find("models"); models != state.end()) {
    clusters_.restore(models->second);
    pairs("members", [&](ClientId client, std::int64_t cluster, std::int64_t) {
      if (cluster < 0 || cluster >= clusters_.count())
        throw DataError("the checkpoint names a cluster it does not hold");
      members_[client] = cluster;
    });
  } else if (const auto rows = state.find("sketches"); rows != state.end()) {
    pairs("seen", [&](ClientId client, std::int64_t, std::int64_t i) {
      if (rows->second.dim() != 2 || i >= rows->second.size(0)) throw DataError("the checkpoint lacks sketches");
      sketches_[client] = rows->second[i].cpu().clone();
    });
  }
}

}  // namespace chorus::inline personal
