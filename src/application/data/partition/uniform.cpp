#include "application/data/partition/uniform.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/rng.h"

namespace chorus::inline partition {

void UniformConfig::describe(ConfigVisitor& v) {
  v.field("fednlp_chunks", fednlp_chunks, "chunks of ceil(N / n), as in FedNLP: the last clients can be empty");
}

Partition Uniform::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  const std::size_t clients = request.clients;
  const auto deal = [&](const SplitView& view) {
    const std::size_t total = view.ids.size();
    std::vector<ClientId> owners(total);
    const std::size_t chunk = std::max<std::size_t>(1, (total + clients - 1) / clients);
    for (std::size_t i = 0; i < total; ++i) {
      owners[i] = static_cast<ClientId>(config_.fednlp_chunks ? i / chunk : i % clients);
    }
    // Shuffling the owners is equivalent to shuffling the examples.
    RandomStream stream({.seed = request.seed, .purpose = "partition.uniform", .step = view.split});
    stream.shuffle(std::span(owners));
    return owners;
  };
  Partition partition = SplitDealer{population, request, {}, deal}.run();
  partition.info.method = "uniform";
  partition.info.group = fmt::format("uniform_clients={}", clients);
  return partition;
}

namespace {

const Registration<Partitioners, UniformConfig> kRegisteredUniform{
    "uniform", "IID: equal random shares",
    [](const UniformConfig& config) { return std::make_unique<Uniform>(config); }};
const Registration<Partitioners, UniformConfig> kRegisteredIid{
    "iid", "the same as uniform", [](const UniformConfig& config) { return std::make_unique<Uniform>(config); }};

}  // namespace
}  // namespace chorus::inline partition
