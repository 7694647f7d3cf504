#include "algorithm/federated/heterofl.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline federated {
namespace {

const Registration<Algorithms, HeteroFlConfig> kRegisteredHeteroFl{
    "heterofl",
    "devices of different size train parts of one network (Diao et al. 2021, Horvath et al. 2021)",
    [](const HeteroFlConfig& config) { return std::make_unique<HeteroFl>(config); },
    {.individual_updates = true, .own_mean = true, .sub_networks = true}};

constexpr double kSlack = 1e-9;

int share_of(double share, int whole) {
  return std::max(1, static_cast<int>(std::lround(share * static_cast<double>(whole))));
}

}  // namespace

void HeteroFlConfig::describe(ConfigVisitor& visitor) {
  visitor.field("widths", widths, "of the feed-forward sublayers of the parts, as shares of the whole")
      .not_empty()
      .above(0)
      .at_most(1);
  visitor.field("depths", depths, "layers of the parts, from the bottom, as shares of the whole")
      .not_empty()
      .above(0)
      .at_most(1);
  visitor.field("ordered", ordered, "a client draws in each round a part up to its largest (FjORD)");
}

std::vector<HeteroFl::Part> HeteroFl::parts(const Variants& variants) const {
  const Variant whole = variants.whole();
  std::map<Variant, double> found;
  const auto all = static_cast<double>(variants.places({}).numel());
  for (const double depth : config_.depths) {
    for (const double width : config_.widths) {
      const Variant variant{share_of(depth, whole.depth), share_of(width, whole.width)};
      found[variant] = static_cast<double>(variants.places(variant).numel()) / all;
    }
  }
  std::vector<Part> parts;
  for (const auto& [variant, share] : found) parts.push_back({variant, share});
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.share < b.share; });
  return parts;
}

std::optional<HeteroFl::Part> HeteroFl::part_for(const RosterEntry& client, std::span<const Part> parts,
                                                 std::uint64_t seed, std::uint64_t round) const {
  std::size_t fitting = parts.size();  // how many fit
  if (client.capacity) {
    fitting = 0;
    while (fitting < parts.size() && parts[fitting].share <= *client.capacity + kSlack) ++fitting;
    if (fitting == 0) return std::nullopt;
  } else {
    RandomStream stream({.seed = seed, .purpose = "sub-network", .client = client.id});
    fitting = 1 + stream.below(parts.size());
  }
  if (!config_.ordered) return parts[fitting - 1];
  RandomStream stream({.seed = seed, .purpose = "ordered dropout", .round = round, .client = client.id});
  return parts[stream.below(fitting)];
}

RoundResult HeteroFl::round(const RoundInput& input) {
  check(input.variants != nullptr, "sub-networks need variants");
  const Variants& variants = *input.variants;
  const std::vector<Part> all = parts(variants);
  std::map<Variant, std::vector<Member>> groups;
  std::map<Variant, double> shares;
  RoundResult result;
  result.loss = std::nan("");
  for (const Member& member : input.cohort) {
    const RosterEntry* client = input.federation.roster().find(member.client);
    check(client != nullptr, "a client of the cohort is on the roster");
    const auto part = part_for(*client, all, input.seed, input.round);
    if (!part) {
      result.failed.emplace_back(member.client, "its device has no memory for the smallest part");
      result.emulated.left_out.push_back(member.client);
      continue;
    }
    groups[part->variant].push_back(member);
    shares[part->variant] = part->share;
  }
  const at::Tensor sum = at::zeros_like(input.model), weights = at::zeros_like(input.model);
  for (const auto& [variant, members] : groups) {
    const at::Tensor part = variants.take(variant, input.model);
    const RoundInput of_group = part_of(input, members, part);
    Request request = request_with_model(of_group, "train");
    if (!variants.is_whole(variant)) write_variant(variant, request.body);
    request.body.numbers["share"] = shares.at(variant);
    std::map<std::size_t, double> weighed;  // by slot, so that the sum has one order
    CollectPlan plan;
    plan.look = [&](Reply& reply, double weight) { weighed[reply.slot] = weight; };
    Collected collected = collect(of_group, std::move(request), plan);
    double weight = 0;
    for (const auto& entry : weighed) weight += entry.second;
    if (collected.means[0].defined()) {
      const at::Tensor places = variants.places(variant).to(input.model.device());
      sum.index_add_(0, places, collected.means[0] * weight);
      weights.index_add_(0, places, at::full_like(collected.means[0], weight));
    }
    collected.result.numbers.clear();
    join(result, std::move(collected.result));
    result.numbers[fmt::format("part_{}x{}", variant.depth, variant.width)] = static_cast<double>(members.size());
  }
  const at::Tensor trained = weights.gt(0);
  input.model.add_(at::where(trained, sum / weights.clamp_min(1e-30), at::zeros_like(sum)));
  return result;
}

}  // namespace chorus::inline federated
