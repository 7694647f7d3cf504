#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "application/data/partition/partition.h"
#include "application/data/partition/population.h"
#include "core/base/rng.h"

namespace chorus::inline partition {

/// A population with its own columns, for tests: random labels, sources and times, and clients if requested.
struct TestPopulation {
  std::vector<ExampleId> train, test;
  std::vector<std::int32_t> labels, clients, sources;
  std::vector<std::int64_t> times;
  std::vector<std::string> label_names, client_names, source_names;
  Population view;

  TestPopulation(std::size_t train_size, std::size_t test_size, std::size_t label_count, std::size_t client_count = 0) {
    const std::size_t size = train_size + test_size;
    train.resize(train_size);
    test.resize(test_size);
    std::iota(train.begin(), train.end(), 0U);
    std::iota(test.begin(), test.end(), static_cast<ExampleId>(train_size));
    RandomStream stream({.seed = 7, .purpose = "test.population"});
    for (std::size_t i = 0; i < size; ++i) {
      labels.push_back(static_cast<std::int32_t>(stream.below(label_count)));
      sources.push_back(static_cast<std::int32_t>(stream.below(6)));
      times.push_back(static_cast<std::int64_t>(stream.below(1'000'000)));
      if (client_count > 0) {
        // One example for each client first, the rest at random.
        const bool dealt = i < client_count;
        clients.push_back(static_cast<std::int32_t>(dealt ? i : stream.below(client_count)));
      }
    }
    for (std::size_t l = 0; l < label_count; ++l) label_names.push_back("label" + std::to_string(l));
    for (std::size_t c = 0; c < client_count; ++c) client_names.push_back("client" + std::to_string(c));
    for (int s = 0; s < 6; ++s) source_names.push_back("source" + std::to_string(s));
    view.examples = size;
    view.train = train;
    view.test = test;
    view.labels = {labels, label_names};
    view.sources = {sources, source_names};
    view.times = times;
    if (client_count > 0) view.clients = {clients, client_names};
  }
  TestPopulation(const TestPopulation&) = delete;
  TestPopulation& operator=(const TestPopulation&) = delete;
};

/// The number of examples of each label at a client.
inline std::vector<std::size_t> label_counts(const ClientLists& lists, std::size_t client,
                                             const TestPopulation& population) {
  std::vector<std::size_t> counts(population.label_names.size());
  for (const ExampleId id : lists[client]) ++counts[static_cast<std::size_t>(population.labels[id])];
  return counts;
}

}  // namespace chorus::inline partition
