#include "application/data/partition/partitioner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "application/data/partition/label_deal.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline partition {
namespace {

/// Spreads `count` items evenly over owners sorted by client: item t goes to the owner at (t + u) * n / count.
void spread(std::span<const ClientId> sorted_owners, std::span<const ExampleId> items, double u,
            std::span<ClientId> owners) {
  const double step = static_cast<double>(sorted_owners.size()) / static_cast<double>(items.size());
  for (std::size_t t = 0; t < items.size(); ++t) {
    const auto at = static_cast<std::size_t>((static_cast<double>(t) + u) * step);
    owners[items[t]] = sorted_owners[std::min(at, sorted_owners.size() - 1)];
  }
}

std::size_t label_count(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::int32_t top = 0;
  for (const std::int32_t label : a) top = std::max(top, label);
  for (const std::int32_t label : b) top = std::max(top, label);
  return static_cast<std::size_t>(top) + 1;
}

}  // namespace

std::vector<std::int32_t> gather(std::span<const std::int32_t> column, std::span<const ExampleId> ids) {
  std::vector<std::int32_t> values(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) values[i] = column[ids[i]];
  return values;
}

std::vector<ClientId> follow_train(std::span<const std::int32_t> train_labels, std::span<const ClientId> train_owners,
                                   std::span<const std::int32_t> test_labels, const PartitionRequest& request) {
  std::vector<ClientId> owners(test_labels.size(), 0);
  if (test_labels.empty()) return owners;
  const std::size_t labels = label_count(train_labels, test_labels);
  const LabelPiles train = make_piles(train_labels, labels, request.seed, 2);
  const LabelPiles test = make_piles(test_labels, labels, request.seed, 3);

  std::vector<ClientId> everyone;  // filled only when a label needs it
  std::vector<ClientId> sorted;
  for (std::size_t l = 0; l < labels; ++l) {
    const auto items = std::span(test.order).subspan(test.begin[l], test.begin[l + 1] - test.begin[l]);
    if (items.empty()) continue;
    RandomStream stream({.seed = request.seed, .purpose = "partition.follow", .round = l});
    sorted.clear();
    for (std::size_t i = train.begin[l]; i < train.begin[l + 1]; ++i) sorted.push_back(train_owners[train.order[i]]);
    std::sort(sorted.begin(), sorted.end());
    if (sorted.empty() && everyone.empty()) {
      everyone.assign(train_owners.begin(), train_owners.end());
      if (everyone.empty()) {
        everyone.resize(request.clients);
        std::iota(everyone.begin(), everyone.end(), ClientId{0});
      }
      std::sort(everyone.begin(), everyone.end());
    }
    spread(sorted.empty() ? everyone : sorted, items, stream.uniform(), owners);
  }
  return owners;
}

Partition SplitDealer::run() const {
  const std::vector<ClientId> train = deal({population.train, 0, "train"});
  std::vector<ClientId> test;
  if (request.test_mix == TestMix::kIndependent || population.test.empty()) {
    test = deal({population.test, 1, "test"});
  } else if (labels.empty()) {
    const std::vector<std::int32_t> train_zeros(population.train.size(), 0);
    const std::vector<std::int32_t> test_zeros(population.test.size(), 0);
    test = follow_train(train_zeros, train, test_zeros, request);
  } else {
    test = follow_train(gather(labels, population.train), train, gather(labels, population.test), request);
  }
  Partition partition;
  partition.train = ClientLists::from_owners(train, population.train, request.clients);
  partition.test = ClientLists::from_owners(test, population.test, request.clients);
  partition.info.seed = request.seed;
  partition.info.choices["test_mix"] = request.test_mix == TestMix::kSame ? "same" : "independent";
  return partition;
}

void check_positive(double value, const char* name) {
  if (!(std::isfinite(value) && value > 0)) {
    throw ConfigError(fmt::format("{} is {}; it must be a positive number", name, value));
  }
}

void check_clients(const PartitionRequest& request) {
  if (request.clients == 0 || request.clients >= (std::size_t{1} << 31)) {
    throw ConfigError(fmt::format("{} clients; there must be at least one and fewer than 2^31", request.clients));
  }
}

std::string name_number(double value, int decimals) {
  std::string text = fmt::format("{:g}", value);
  if (decimals > 0 && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace chorus::inline partition
