#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"
#include "core/base/client_id.h"
#include "core/config/config_visitor.h"

namespace chorus::inline experiment {

/// Secrets that are planted in clients' data to measure what the model remembers of them (chorus privacy audit).
struct CanariesConfig {
  std::int64_t count = 64;                ///< of which each is planted with probability 1/2
  std::int64_t references = 4095;         ///< made alike and never planted; exposure can reach log2(references + 1)
  std::int64_t length = 8;                ///< words of each
  std::int64_t alphabet = 32;             ///< different words that they are made of
  bool alone = false;                     ///< its client has nothing else, and nothing where it is not planted
  std::int64_t repeats = 1;               ///< copies of each planted one, all with one client
  std::optional<std::int64_t> seed = {};  ///< of who is planted, and where; the experiment's by default
  std::int64_t every = 0;                 ///< rounds between measurements during the run; 0: none

  void describe(ConfigVisitor& visitor);
};

/// A random text. Its words follow from the experiment's seed alone; runs with other `audit.seed` plant other ones of
/// the same canaries, which makes them shadow runs.
struct Canary {
  std::vector<std::uint32_t> examples = {};  ///< in the data; all copies are the same
  bool planted = false;
  ClientId client = 0;  ///< that has it, where it is planted
};

struct PlantedData {
  Dataset data;  ///< the same examples at the same indices, then canaries and references
  ClientLists train;
  std::vector<Canary> canaries;
  std::vector<std::uint32_t> references;
};

/// Seeds of the words, and of the coins.
struct CanarySeeds {
  std::uint64_t words = 0, coins = 0;
};

/// Canaries are `length` words, each drawn from the `alphabet` most frequent words of the data, with a random label
/// where examples have one. ConfigError for data that is neither language model nor classification, or has too few
/// words.
PlantedData plant_canaries(const Dataset& data, const ClientLists& train, const CanariesConfig& config,
                           const CanarySeeds& seeds);

}  // namespace chorus::inline experiment
