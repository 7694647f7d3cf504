#include "algorithm/federated/fedlora.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "algorithm/federated/weighted_mean.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline federated {
namespace {

const Registration<Algorithms, FedLoraConfig> kFedLora{
    "fedlora",
    "LoRA among clients of different ranks (HetLoRA, FlexLoRA)",
    [](const FedLoraConfig& config) { return std::make_unique<FedLora>(config); },
    {.individual_updates = true, .own_mean = true, .variants = true}};

using Pair = Variants::LowRankPair;

at::Tensor factor_a(const at::Tensor& whole, const Pair& pair) {
  return whole.narrow(0, pair.a, pair.rank * pair.in).view({pair.rank, pair.in});
}

at::Tensor factor_b(const at::Tensor& whole, const Pair& pair) {
  return whole.narrow(0, pair.b, pair.out * pair.rank).view({pair.out, pair.rank});
}

// All matrices B A of a client, concatenated.
at::Tensor products(const at::Tensor& whole, const std::vector<Pair>& pairs) {
  std::vector<at::Tensor> parts;
  for (const Pair& pair : pairs) parts.push_back(at::mm(factor_b(whole, pair), factor_a(whole, pair)).flatten());
  return at::cat(parts);
}

// The best rank-r factors of each matrix, written into the model.
void factorise(const at::Tensor& mean, const std::vector<Pair>& pairs, const at::Tensor& model) {
  std::int64_t begin = 0;
  for (const Pair& pair : pairs) {
    const at::Tensor product = mean.narrow(0, begin, pair.out * pair.in).view({pair.out, pair.in});
    begin += pair.out * pair.in;
    const auto [u, s, v] = product.svd();
    const std::int64_t rank = std::min({pair.rank, pair.out, pair.in});
    const at::Tensor root = s.narrow(0, 0, rank).sqrt();
    const at::Tensor a = factor_a(model, pair), b = factor_b(model, pair);
    a.narrow(0, 0, rank).copy_(root.unsqueeze(1) * v.narrow(1, 0, rank).t());
    b.narrow(1, 0, rank).copy_(u.narrow(1, 0, rank) * root);
    if (rank < pair.rank) {
      a.narrow(0, rank, pair.rank - rank).zero_();
      b.narrow(1, rank, pair.rank - rank).zero_();
    }
  }
}

}  // namespace

void FedLoraConfig::describe(ConfigVisitor& visitor) {
  visitor.field("ranks", ranks, "ranks of the clients, assigned evenly; none: all have tuning.rank").at_least(1);
  visitor.field("merge", merge, {{"zero_padding", Merge::kZeroPadding}, {"product", Merge::kProduct}},
                "how different ranks are averaged: factors padded with zeros, or products cut by SVD");
}

std::int64_t FedLora::rank_of(std::uint64_t seed, ClientId client, std::int64_t most) const {
  if (config_.ranks.empty()) return most;
  RandomStream stream({.seed = seed, .purpose = "lora rank", .client = client});
  return config_.ranks[stream.below(config_.ranks.size())];
}

RoundResult FedLora::round(const RoundInput& input) {
  check(input.variants != nullptr, "FedLoRA needs variants");
  const Variants& variants = *input.variants;
  const std::int64_t most = variants.whole().width;
  const std::vector<Pair> pairs = variants.low_rank_pairs();
  if (config_.merge == FedLoraConfig::Merge::kProduct && pairs.empty()) {
    throw ConfigError("algorithm: fedlora's merge: product needs tuning: lora with both factors trained");
  }
  std::map<std::int64_t, std::vector<Member>> groups;
  for (const Member& member : input.cohort) groups[rank_of(input.seed, member.client, most)].push_back(member);
  if (groups.rbegin()->first > most) {
    throw ConfigError(
        fmt::format("algorithm.ranks: rank {} is larger than tuning.rank {}", groups.rbegin()->first, most));
  }

  WeightedMean models(input.cohort.size()), mean_products(input.cohort.size());
  RoundResult result;
  result.loss = std::nan("");
  std::size_t first = 0;
  for (const auto& [rank, members] : groups) {
    const Variant variant{-1, static_cast<int>(rank)};
    const at::Tensor part = variants.take(variant, input.model);
    const RoundInput of_group = part_of(input, members, part);
    Request request = request_with_model(of_group, "train");
    write_variant(variant, request.body);
    CollectPlan plan;
    plan.look = [&](Reply& reply, double weight) {
      const at::Tensor padded = at::zeros_like(input.model);
      variants.put(variant, part + reply.body.tensor("update").to(part.device()), padded);
      models.add(first + reply.slot, weight, padded);
      if (config_.merge == FedLoraConfig::Merge::kProduct) {
        mean_products.add(first + reply.slot, weight, products(padded, pairs));
      }
    };
    join(result, collect(of_group, std::move(request), plan).result);
    first += members.size();
  }
  const at::Tensor mean = models.result();
  if (!mean.defined()) return result;
  input.model.copy_(mean);
  if (config_.merge == FedLoraConfig::Merge::kProduct) factorise(mean_products.result(), pairs, input.model);
  return result;
}

}  // namespace chorus::inline federated
