#include "application/data/partition/temporal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline partition {
namespace {

constexpr std::int64_t kMissing = std::numeric_limits<std::int64_t>::min();

std::vector<std::int64_t> times_of(const Population& population, std::span<const ExampleId> ids) {
  std::vector<std::int64_t> times(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    times[i] = population.times[ids[i]];
    if (times[i] == kMissing) {
      throw DataError(fmt::format("example {} has no time; temporal slices need one for every example", ids[i]));
    }
  }
  return times;
}

}  // namespace

void TemporalConfig::describe(ConfigVisitor& v) {
  v.field("slices", slices, "what is equal among the slices: examples or time").one_of({"count", "duration"});
}

std::vector<std::int64_t> slice_boundaries(std::span<const std::int64_t> times, std::size_t slices,
                                           const std::string& how) {
  std::vector<std::int64_t> boundaries;
  if (times.empty()) return std::vector<std::int64_t>(slices - 1, 0);
  boundaries.reserve(slices - 1);
  if (how == "count") {
    std::vector<std::int64_t> sorted(times.begin(), times.end());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t s = 1; s < slices; ++s) boundaries.push_back(sorted[s * sorted.size() / slices]);
    return boundaries;
  }
  const auto [low, high] = std::minmax_element(times.begin(), times.end());
  const long double width =
      (static_cast<long double>(*high) - static_cast<long double>(*low) + 1) / static_cast<long double>(slices);
  for (std::size_t s = 1; s < slices; ++s) {
    boundaries.push_back(
        static_cast<std::int64_t>(std::floor(static_cast<long double>(*low) + width * static_cast<long double>(s))));
  }
  return boundaries;
}

std::size_t slice_of(std::int64_t time, std::span<const std::int64_t> boundaries) {
  return static_cast<std::size_t>(std::upper_bound(boundaries.begin(), boundaries.end(), time) - boundaries.begin());
}

Temporal::Temporal(TemporalConfig config) : config_(std::move(config)) {
  if (config_.slices != "count" && config_.slices != "duration") {
    throw ConfigError(fmt::format("slices is '{}'; it must be count or duration", config_.slices));
  }
}

Partition Temporal::make(const Population& population, const PartitionRequest& request) const {
  check_clients(request);
  check_population(population);
  if (population.times.empty() && !(population.train.empty() && population.test.empty())) {
    throw DataError("the data has no time column, so it cannot be cut into temporal slices; set data.columns.time");
  }
  const std::vector<std::int64_t> train = times_of(population, population.train);
  const std::vector<std::int64_t> test = times_of(population, population.test);
  const std::vector<std::int64_t> boundaries =
      slice_boundaries(train.empty() ? test : train, request.clients, config_.slices);
  const auto lists = [&](std::span<const std::int64_t> times, std::span<const ExampleId> ids) {
    std::vector<ClientId> owners(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) owners[i] = static_cast<ClientId>(slice_of(times[i], boundaries));
    return ClientLists::from_owners(owners, ids, request.clients);
  };
  Partition partition;
  partition.train = lists(train, population.train);
  partition.test = lists(test, population.test);
  partition.info.method = "temporal";
  partition.info.group = fmt::format("temporal_clients={}", request.clients);
  partition.info.choices["slices"] = config_.slices;
  return partition;
}

std::vector<Partition> slice_clients(const Partition& partition, std::span<const std::int64_t> times,
                                     std::span<const std::int64_t> boundaries) {
  std::vector<Partition> slices(boundaries.size() + 1);
  std::vector<ExampleId> mine;
  for (std::size_t s = 0; s < slices.size(); ++s) {
    for (std::size_t client = 0; client < partition.clients(); ++client) {
      mine.clear();
      for (const ExampleId id : partition.train[client]) {
        check(id < times.size(), "an example without a time");
        if (slice_of(times[id], boundaries) == s) mine.push_back(id);
      }
      slices[s].train.append(mine);
    }
    slices[s].test = partition.test;
    slices[s].info = partition.info;
    slices[s].info.numbers["slice"] = static_cast<double>(s);
    slices[s].client_names = partition.client_names;
  }
  return slices;
}

namespace {

const Registration<Partitioners, TemporalConfig> kRegisteredTemporal{
    "temporal", "one client per slice of time",
    [](const TemporalConfig& config) { return std::make_unique<Temporal>(config); }};

}  // namespace
}  // namespace chorus::inline partition
