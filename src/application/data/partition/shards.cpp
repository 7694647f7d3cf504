#include "application/data/partition/shards.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "application/data/partition/label_deal.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline partition {

void ShardsConfig::describe(ConfigVisitor& v) {
  v.field("shards", shards, "shards per client").at_least(1).at_most(1'000'000);
  v.field("by", by, "the column that examples are sorted by").one_of({"label", "source", "client"});
}

Shards::Shards(ShardsConfig config) : config_(std::move(config)) {
  if (config_.shards < 1 || config_.shards > 1'000'000) {
    throw ConfigError(fmt::format("shards is {}; it must be between 1 and 1000000", config_.shards));
  }
}

Partition Shards::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  const Factor& factor = factor_named(population, config_.by);
  const auto shards = static_cast<std::size_t>(config_.shards);
  const std::size_t pieces = request.clients * shards;
  if (pieces >= (std::size_t{1} << 31)) {
    throw ConfigError(fmt::format("{} clients with {} shards each are too many", request.clients, config_.shards));
  }
  const auto deal = [&](const SplitView& view) {
    const LabelPiles piles = make_piles(gather(factor.ids, view.ids), factor.names.size(), request.seed, view.split);
    std::vector<std::uint32_t> holder(pieces);
    std::iota(holder.begin(), holder.end(), 0U);
    RandomStream stream({.seed = request.seed, .purpose = "partition.shards", .step = view.split});
    stream.shuffle(std::span(holder));

    std::vector<ClientId> owners(view.ids.size());
    std::size_t done = 0;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t end = (piece + 1) * owners.size() / pieces;
      const auto owner = static_cast<ClientId>(holder[piece] / shards);
      for (; done < end; ++done) owners[piles.order[done]] = owner;
    }
    return owners;
  };
  Partition partition = SplitDealer{population, request, factor.ids, deal}.run();
  partition.info.method = "shards";
  partition.info.group = fmt::format("niid_shards_clients={}_shards={}", request.clients, config_.shards);
  partition.info.numbers["shards"] = static_cast<double>(config_.shards);
  partition.info.choices["by"] = config_.by;
  return partition;
}

namespace {

const Registration<Partitioners, ShardsConfig> kRegisteredShards{
    "shards", "a few label shards per client (McMahan et al. 2017)",
    [](const ShardsConfig& config) { return std::make_unique<Shards>(config); }};

}  // namespace
}  // namespace chorus::inline partition
