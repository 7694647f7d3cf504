#include "application/data/partition/class_dirichlet.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "application/data/partition/label_deal.h"
#include "core/base/rng.h"

namespace chorus::inline partition {

void ClassDirichletConfig::describe(ConfigVisitor& v) {
  v.field("alpha", alpha, "concentration over clients, per class").above(0);
  v.field("by", by, "the column that the mix is over").one_of({"label", "source", "client"});
}

ClassDirichlet::ClassDirichlet(ClassDirichletConfig config) : config_(std::move(config)) {
  check_positive(config_.alpha, "alpha");
}

Partition ClassDirichlet::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  const Factor& factor = factor_named(population, config_.by);
  const std::vector<double> concentration(request.clients, config_.alpha);
  const auto deal = [&](const SplitView& view) {
    const LabelPiles piles = make_piles(gather(factor.ids, view.ids), factor.names.size(), request.seed, view.split);
    std::vector<ClientId> owners(view.ids.size());
    for (std::size_t l = 0; l < piles.labels(); ++l) {
      const std::size_t begin = piles.begin[l];
      const std::size_t count = piles.begin[l + 1] - begin;
      if (count == 0) continue;
      RandomStream stream({.seed = request.seed, .purpose = "partition.class", .round = l, .step = view.split});
      const std::vector<double> shares = stream.dirichlet(concentration);
      double sum = 0;
      std::size_t done = 0;
      for (std::size_t j = 0; j < shares.size(); ++j) {
        sum += shares[j];
        const std::size_t cut = j + 1 == shares.size()
                                    ? count
                                    : std::min(count, static_cast<std::size_t>(sum * static_cast<double>(count)));
        for (; done < cut; ++done) owners[piles.order[begin + done]] = static_cast<ClientId>(j);
      }
    }
    return owners;
  };
  Partition partition = SplitDealer{population, request, factor.ids, deal}.run();
  partition.info.method = "class_dirichlet";
  partition.info.group = fmt::format("niid_class_clients={}_alpha={}", request.clients, name_number(config_.alpha));
  partition.info.numbers["alpha"] = config_.alpha;
  partition.info.choices["by"] = config_.by;
  return partition;
}

namespace {

const Registration<Partitioners, ClassDirichletConfig> kRegisteredClassDirichlet{
    "class_dirichlet", "each class is cut among the clients by Dirichlet shares (FedID, Ma et al. 2023)",
    [](const ClassDirichletConfig& config) { return std::make_unique<ClassDirichlet>(config); }};

}  // namespace
}  // namespace chorus::inline partition
