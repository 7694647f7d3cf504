#include "application/data/partition/population.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline partition {
namespace {

void check_factor(const Factor& factor, std::size_t size, const char* name) {
  if (factor.empty()) return;
  if (factor.ids.size() != size) {
    throw DataError(fmt::format("the {} column has {} entries for {} examples", name, factor.ids.size(), size));
  }
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t id = factor.ids[i];
    if (id == Factor::kNoValue) continue;
    if (id < 0 || static_cast<std::size_t>(id) >= factor.names.size()) {
      throw DataError(
          fmt::format("example {} has {} {}, but there are only {} {}s", i, name, id, factor.names.size(), name));
    }
  }
}

void check_split(std::span<const std::uint32_t> ids, std::size_t examples, const char* name) {
  for (const std::uint32_t id : ids) {
    if (id >= examples) throw DataError(fmt::format("the {} split names example {} of {}", name, id, examples));
  }
}

}  // namespace

void check_population(const Population& population) {
  if (population.examples >= std::numeric_limits<std::uint32_t>::max()) {
    throw DataError(fmt::format("{} examples are too many: example ids have 32 bits", population.examples));
  }
  check_split(population.train, population.examples, "train");
  check_split(population.test, population.examples, "test");
  check_factor(population.labels, population.examples, "label");
  check_factor(population.clients, population.examples, "client");
  check_factor(population.sources, population.examples, "source");
  if (!population.times.empty() && population.times.size() != population.examples) {
    throw DataError(
        fmt::format("the time column has {} entries for {} examples", population.times.size(), population.examples));
  }
}

const Factor& factor_named(const Population& population, const std::string& name) {
  const Factor* factor = nullptr;
  if (name == "label") factor = &population.labels;
  if (name == "client") factor = &population.clients;
  if (name == "source") factor = &population.sources;
  if (factor == nullptr) {
    throw ConfigError(fmt::format("by is '{}'; it must be label, client or source", name));
  }
  if (population.train.empty() && population.test.empty()) return *factor;
  if (factor->empty()) {
    std::string have;
    for (const auto& [known, column] : {std::pair<const char*, const Factor*>{"label", &population.labels},
                                        {"client", &population.clients},
                                        {"source", &population.sources}}) {
      if (!column->empty()) have += fmt::format("{}{}", have.empty() ? "" : " and ", known);
    }
    throw DataError(fmt::format("the data has no {} column to partition by ({})", name,
                                have.empty() ? "it has neither label, client nor source" : "it has " + have));
  }
  for (const auto& split : {population.train, population.test}) {
    for (const std::uint32_t id : split) {
      if (factor->ids[id] != Factor::kNoValue) continue;
      throw DataError(fmt::format("example {} has no {}; partition by another column, or add the value", id, name));
    }
  }
  return *factor;
}

}  // namespace chorus::inline partition
