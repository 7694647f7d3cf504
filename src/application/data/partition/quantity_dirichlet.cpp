#include "application/data/partition/quantity_dirichlet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "application/data/partition/label_deal.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline partition {
namespace {

void check_guard(std::int64_t min_size, std::int64_t max_draws) {
  if (min_size < 0) throw ConfigError(fmt::format("min_size is {}; it must not be negative", min_size));
  if (max_draws < 1) throw ConfigError(fmt::format("max_draws is {}; it must be at least 1", max_draws));
}

}  // namespace

void QuantityDirichletConfig::describe(ConfigVisitor& v) {
  v.field("beta", beta, "concentration of the sizes; large: equal").above(0);
  v.field("min_size", min_size, "minimum examples per client and split; 0 allows empty clients").at_least(0);
  v.field("max_draws", max_draws, "draws of the sizes before giving up on min_size").at_least(1);
}

void LabelQuantityConfig::describe(ConfigVisitor& v) {
  v.field("alpha", alpha, "concentration of the label mixes").above(0);
  v.field("beta", beta, "concentration of the sizes").above(0);
  v.field("by", by, "the column that the mix is over").one_of({"label", "source", "client"});
  v.field("min_size", min_size, "minimum examples per client and split; 0 allows empty clients").at_least(0);
  v.field("max_draws", max_draws, "draws of the sizes before giving up on min_size").at_least(1);
}

std::vector<std::size_t> draw_sizes(const SplitView& view, const PartitionRequest& request,
                                    const QuantityDirichletConfig& config) {
  const std::size_t total = view.ids.size();
  const std::size_t clients = request.clients;
  const auto least = static_cast<std::size_t>(config.min_size);
  if (total == 0) return std::vector<std::size_t>(clients, 0);
  if (total / clients < least) {
    throw ConfigError(
        fmt::format("{} clients with at least {} each need more than the {} examples of the {} split; use fewer "
                    "clients, or set "
                    "min_size=0 to allow empty ones",
                    clients, config.min_size, total, view.name));
  }
  const std::vector<double> concentration(clients, config.beta);
  std::vector<std::size_t> sizes(clients);
  for (std::int64_t attempt = 0; attempt < config.max_draws; ++attempt) {
    RandomStream stream({.seed = request.seed,
                         .purpose = "partition.sizes",
                         .round = static_cast<std::uint64_t>(attempt),
                         .step = view.split});
    const std::vector<double> shares = stream.dirichlet(concentration);
    double sum = 0;
    std::size_t previous = 0;
    for (std::size_t j = 0; j < clients; ++j) {
      sum += shares[j];
      const std::size_t cut =
          j + 1 == clients ? total : std::min(total, static_cast<std::size_t>(sum * static_cast<double>(total)));
      sizes[j] = cut - previous;
      previous = cut;
    }
    if (*std::min_element(sizes.begin(), sizes.end()) >= least) return sizes;
  }
  throw ConfigError(fmt::format(
      "beta={:g} over {} clients left some client with fewer than {} of the {} {} examples in each of {} draws; use a "
      "larger beta, fewer clients, or min_size=0 to allow empty clients",
      config.beta, clients, config.min_size, total, view.name, config.max_draws));
}

QuantityDirichlet::QuantityDirichlet(QuantityDirichletConfig config) : config_(config) {
  check_positive(config_.beta, "beta");
  check_guard(config_.min_size, config_.max_draws);
}

Partition QuantityDirichlet::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  const auto deal = [&](const SplitView& view) {
    const std::vector<std::size_t> sizes = draw_sizes(view, request, config_);
    std::vector<ClientId> owners;
    owners.reserve(view.ids.size());
    for (std::size_t j = 0; j < sizes.size(); ++j) owners.insert(owners.end(), sizes[j], static_cast<ClientId>(j));
    RandomStream stream({.seed = request.seed, .purpose = "partition.quantity", .step = view.split});
    stream.shuffle(std::span(owners));
    return owners;
  };
  Partition partition = SplitDealer{population, request, {}, deal}.run();
  partition.info.method = "quantity_dirichlet";
  partition.info.group = fmt::format("niid_quantity_clients={}_beta={}", request.clients, name_number(config_.beta, 1));
  partition.info.numbers["beta"] = config_.beta;
  partition.info.numbers["min_size"] = static_cast<double>(config_.min_size);
  return partition;
}

LabelQuantity::LabelQuantity(LabelQuantityConfig config) : config_(std::move(config)) {
  check_positive(config_.alpha, "alpha");
  check_positive(config_.beta, "beta");
  check_guard(config_.min_size, config_.max_draws);
}

Partition LabelQuantity::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  const Factor& factor = factor_named(population, config_.by);
  const auto deal = [&](const SplitView& view) {
    const std::vector<std::size_t> sizes =
        draw_sizes(view, request, {config_.beta, config_.min_size, config_.max_draws});
    const std::vector<std::int32_t> labels = gather(factor.ids, view.ids);
    return deal_label_mixes({labels, factor.names.size(), sizes, config_.alpha, request.seed, view.split});
  };
  Partition partition = SplitDealer{population, request, factor.ids, deal}.run();
  partition.info.method = "label_quantity";
  partition.info.group = fmt::format("niid_label_quantity_clients={}_alpha={}_beta={}", request.clients,
                                     name_number(config_.alpha), name_number(config_.beta, 1));
  partition.info.numbers["alpha"] = config_.alpha;
  partition.info.numbers["beta"] = config_.beta;
  partition.info.numbers["min_size"] = static_cast<double>(config_.min_size);
  partition.info.choices["by"] = config_.by;
  return partition;
}

namespace {

const Registration<Partitioners, QuantityDirichletConfig> kRegisteredQuantityDirichlet{
    "quantity_dirichlet", "size skew, labels at random (FedNLP, Lin et al. 2022)",
    [](const QuantityDirichletConfig& config) { return std::make_unique<QuantityDirichlet>(config); }};
const Registration<Partitioners, LabelQuantityConfig> kRegisteredLabelQuantity{
    "label_quantity", "label and size skew together",
    [](const LabelQuantityConfig& config) { return std::make_unique<LabelQuantity>(config); }};

}  // namespace
}  // namespace chorus::inline partition
