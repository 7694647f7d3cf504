#include "application/data/partition/label_dirichlet.h"

#include <fmt/format.h>

#include <utility>

#include "application/data/partition/label_deal.h"
#include "core/base/counted.h"
#include "core/base/error.h"

namespace chorus::inline partition {

void LabelDirichletConfig::describe(ConfigVisitor& v) {
  v.field("alpha", alpha, "concentration of the label mixes; small: one label per client").above(0);
  v.field("by", by, "the column that the mix is over").one_of({"label", "source", "client"});
  v.field("remainder", remainder, "who gets the remaining examples: last (FedNLP) or spread")
      .one_of({"last", "spread"});
}

std::vector<std::size_t> equal_sizes(const SplitView& view, std::size_t clients, const std::string& remainder) {
  if (remainder != "last" && remainder != "spread") {
    throw ConfigError(fmt::format("remainder is '{}'; it must be last or spread", remainder));
  }
  const std::size_t total = view.ids.size();
  std::vector<std::size_t> sizes(clients, total / clients);
  if (remainder == "spread") {
    for (std::size_t j = 0; j < total % clients; ++j) ++sizes[j];
  } else if (total > 0 && total < clients) {
    throw ConfigError(
        fmt::format("{} for the {} of the {} split: all of them would go to the last client; use fewer clients, or set "
                    "remainder=spread for clients with one example or none",
                    counted(clients, "client"), counted(total, "example"), view.name));
  } else {
    sizes.back() += total % clients;
  }
  return sizes;
}

LabelDirichlet::LabelDirichlet(LabelDirichletConfig config) : config_(std::move(config)) {
  check_positive(config_.alpha, "alpha");
}

Partition LabelDirichlet::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  const Factor& factor = factor_named(population, config_.by);
  const auto deal = [&](const SplitView& view) {
    const std::vector<std::size_t> sizes = equal_sizes(view, request.clients, config_.remainder);
    const std::vector<std::int32_t> labels = gather(factor.ids, view.ids);
    return deal_label_mixes({labels, factor.names.size(), sizes, config_.alpha, request.seed, view.split});
  };
  Partition partition = SplitDealer{population, request, factor.ids, deal}.run();
  partition.info.method = "label_dirichlet";
  partition.info.group = fmt::format("niid_label_clients={}_alpha={}", request.clients, name_number(config_.alpha));
  partition.info.numbers["alpha"] = config_.alpha;
  partition.info.choices["by"] = config_.by;
  partition.info.choices["remainder"] = config_.remainder;
  return partition;
}

namespace {

const Registration<Partitioners, LabelDirichletConfig> kRegisteredLabelDirichlet{
    "label_dirichlet", "label skew with equal sizes and dynamic re-assignment (FedNLP, Lin et al. 2022)",
    [](const LabelDirichletConfig& config) { return std::make_unique<LabelDirichlet>(config); }};

}  // namespace
}  // namespace chorus::inline partition
