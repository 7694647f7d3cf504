#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/partition/partition.h"
#include "application/data/partition/population.h"
#include "core/config/registry.h"

namespace chorus::inline partition {

/// How a client's test examples relate to its training examples.
enum class TestMix {
  kIndependent,  ///< dealt independently of the training examples (FedNLP)
  kSame          ///< follow each client's own training labels and size
};

struct PartitionRequest {
  std::size_t clients = 0;  ///< 0: as many as the data has (natural only)
  std::uint64_t seed = 42;
  TestMix test_mix = TestMix::kIndependent;
};

/// Deals examples out to clients. Every id of the population's splits goes to exactly one client; the same request
/// gives the same partition on every machine. A partitioner holds only its parameters and is thread-safe.
///
///     Partition partition = LabelDirichlet({.alpha = 1.0}).make(population, {.clients = 100, .seed = 42});
class Partitioner {
 public:
  static constexpr std::string_view kKind = "partitioner";
  virtual ~Partitioner() = default;
  /// ConfigError when the request is impossible (with what would work), DataError when the data lacks a column.
  virtual Partition make(const Population& population, const PartitionRequest& request) const = 0;
};

/// Partitioners by name: `Partitioners::make("label_dirichlet")->make(population, request)`.
using Partitioners = Registry<Partitioner>;

/// One split as seen by the dealing functions.
struct SplitView {
  std::span<const ExampleId> ids;
  std::uint64_t split = 0;  ///< 0 train, 1 test: part of every stream's key
  const char* name = "train";
};

/// The values of a column for the ids of a split.
std::vector<std::int32_t> gather(std::span<const std::int32_t> column, std::span<const ExampleId> ids);

/// Deals both splits with `deal` (the owner of each id), or the test split by `follow_train` for TestMix::kSame.
/// `labels` is what the test mix follows; empty: sizes only.
struct SplitDealer {
  const Population& population;
  const PartitionRequest& request;
  std::span<const std::int32_t> labels;
  std::function<std::vector<ClientId>(const SplitView&)> deal;

  Partition run() const;
};

/// Owners of the test split: each client gets every label in proportion to its training examples of that label (or to
/// its size, for a label unseen in training). Systematic sampling: within one example of the exact proportion for each
/// label and run of clients.
std::vector<ClientId> follow_train(std::span<const std::int32_t> train_labels, std::span<const ClientId> train_owners,
                                   std::span<const std::int32_t> test_labels, const PartitionRequest& request);

/// ConfigError unless `value` is finite and > 0.
void check_positive(double value, const char* name);
/// ConfigError for no clients, or 2^31 and more.
void check_clients(const PartitionRequest& request);

/// A number in a group's name, as Python's %g prints it (alpha 1 -> "1"), with at least `decimals` decimals.
std::string name_number(double value, int decimals = 0);

}  // namespace chorus::inline partition
