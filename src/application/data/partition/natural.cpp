#include "application/data/partition/natural.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline partition {

void NaturalConfig::describe(ConfigVisitor& v) {
  v.field("by", by, "the column that defines the clients").one_of({"client", "source", "label"});
}

Partition Natural::make(const Population& population, const PartitionRequest& request) const {
  check_population(population);
  const Factor& factor = factor_named(population, config_.by);

  std::vector<bool> used(factor.names.size());
  for (const auto& split : {population.train, population.test}) {
    for (const ExampleId id : split) used[static_cast<std::size_t>(factor.ids[id])] = true;
  }
  std::vector<std::uint32_t> values;
  for (std::size_t v = 0; v < used.size(); ++v) {
    if (used[v]) values.push_back(static_cast<std::uint32_t>(v));
  }
  std::sort(values.begin(), values.end(),
            [&](std::uint32_t a, std::uint32_t b) { return factor.names[a] < factor.names[b]; });
  if (request.clients != 0 && request.clients != values.size()) {
    throw ConfigError(fmt::format(
        "{} clients are configured, but the data has {} different values of {}; leave the number of clients "
        "out, or give {}",
        request.clients, values.size(), config_.by, values.size()));
  }

  std::vector<ClientId> client_of(factor.names.size(), std::numeric_limits<ClientId>::max());
  Partition partition;
  for (std::size_t c = 0; c < values.size(); ++c) {
    client_of[values[c]] = static_cast<ClientId>(c);
    partition.client_names.push_back(factor.names[values[c]]);
  }
  const auto lists = [&](std::span<const ExampleId> ids) {
    std::vector<ClientId> owners(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) owners[i] = client_of[static_cast<std::size_t>(factor.ids[ids[i]])];
    return ClientLists::from_owners(owners, ids, values.size());
  };
  partition.train = lists(population.train);
  partition.test = lists(population.test);
  partition.info.method = "natural";
  partition.info.group = fmt::format("natural_clients={}", values.size());
  partition.info.numbers["natural_factors"] = static_cast<double>(values.size());
  partition.info.choices["by"] = config_.by;
  return partition;
}

namespace {

const Registration<Partitioners, NaturalConfig> kRegisteredNatural{
    "natural", "the data's own clients, sources or labels",
    [](const NaturalConfig& config) { return std::make_unique<Natural>(config); }};

}  // namespace
}  // namespace chorus::inline partition
