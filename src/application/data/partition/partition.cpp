#include "application/data/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline partition {

ClientLists ClientLists::from_owners(std::span<const ClientId> owners, std::span<const ExampleId> ids,
                                     std::size_t clients) {
  check(owners.size() == ids.size(), "every example needs one owner");
  ClientLists lists;
  lists.offsets_.assign(clients + 1, 0);
  for (const ClientId owner : owners) {
    check(owner < clients, "an example's owner is not a client");
    ++lists.offsets_[owner + 1];
  }
  for (std::size_t c = 0; c < clients; ++c) lists.offsets_[c + 1] += lists.offsets_[c];
  lists.ids_.resize(owners.size());
  // offsets_[c] serves as the cursor of client c, which leaves it at the start of client c + 1.
  for (std::size_t i = 0; i < owners.size(); ++i) {
    lists.ids_[lists.offsets_[owners[i]]++] = ids[i];
  }
  for (std::size_t c = clients; c > 0; --c) lists.offsets_[c] = lists.offsets_[c - 1];
  lists.offsets_[0] = 0;
  return lists;
}

void ClientLists::append(std::span<const ExampleId> examples) {
  ids_.insert(ids_.end(), examples.begin(), examples.end());
  offsets_.push_back(ids_.size());
}

Coverage check_against_data(const Partition& partition, std::size_t examples, const std::string& where) {
  std::vector<bool> seen(examples);
  Coverage coverage;
  for (const ClientLists* lists : {&partition.train, &partition.test}) {
    for (std::size_t client = 0; client < lists->clients(); ++client) {
      for (const ExampleId id : (*lists)[client]) {
        if (id >= examples) {
          throw DataError(
              fmt::format("{}: client {} holds example {}, but the data has only {} (0 to {}); the partition belongs "
                          "to other data",
                          where, client, id, examples, examples == 0 ? 0 : examples - 1));
        }
        if (seen[id]) {
          ++coverage.repeated;
        } else {
          seen[id] = true;
          ++coverage.held;
        }
      }
    }
  }
  coverage.missing = examples - coverage.held;
  return coverage;
}

std::string empty_clients_warning(const Partition& partition) {
  std::size_t empty = 0;
  for (std::size_t client = 0; client < partition.clients(); ++client) empty += partition.train[client].empty() ? 1 : 0;
  if (empty == 0) return "";
  return fmt::format(
      "{} of {} clients have no training examples and will never train; ask for fewer clients, or choose another "
      "partitioner (chorus list partitioner)",
      empty, partition.clients());
}

void hold_out(Partition& partition, double share, std::span<const std::int64_t> times, std::uint64_t seed) {
  if (!(share >= 0 && share < 1)) {
    throw ConfigError(fmt::format(
        "the test share is {}; it must be at least 0 and below 1, so that training examples remain", share));
  }
  if (partition.test.total() != 0) {
    throw ConfigError("the data already has a test split; leave the test share at 0");
  }
  ClientLists train;
  ClientLists test;
  std::vector<ExampleId> mine;
  for (std::size_t client = 0; client < partition.clients(); ++client) {
    mine.assign(partition.train[client].begin(), partition.train[client].end());
    const auto held = static_cast<std::size_t>(std::floor(share * static_cast<double>(mine.size())));
    if (times.empty()) {
      RandomStream stream({.seed = seed, .purpose = "partition.hold_out", .client = client});
      stream.shuffle(std::span(mine));
    } else {
      std::stable_sort(mine.begin(), mine.end(), [&](ExampleId a, ExampleId b) { return times[a] < times[b]; });
    }
    const auto cut = mine.begin() + static_cast<std::ptrdiff_t>(mine.size() - held);
    std::sort(mine.begin(), cut);
    std::sort(cut, mine.end());
    const std::span<const ExampleId> all(mine);
    train.append(all.first(mine.size() - held));
    test.append(all.last(held));
  }
  partition.train = std::move(train);
  partition.test = std::move(test);
}

}  // namespace chorus::inline partition
