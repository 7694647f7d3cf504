#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus::inline partition {

using ExampleId = std::uint32_t;

/// The examples of each client in one split, as an array of ids and one of offsets (CSR): four bytes per example and
/// eight per client.
class ClientLists {
 public:
  ClientLists() : offsets_{0} {}

  /// From the owner of each example: client c gets every ids[i] with owners[i] == c, in that order.
  static ClientLists from_owners(std::span<const ClientId> owners, std::span<const ExampleId> ids, std::size_t clients);

  std::size_t clients() const { return offsets_.size() - 1; }
  std::size_t total() const { return ids_.size(); }
  std::size_t size_of(std::size_t client) const { return offsets_[client + 1] - offsets_[client]; }
  std::span<const ExampleId> operator[](std::size_t client) const {
    return std::span(ids_).subspan(offsets_[client], size_of(client));
  }
  std::span<const ExampleId> ids() const { return ids_; }
  std::span<const std::uint64_t> offsets() const { return offsets_; }

  /// Adds one more client with these examples.
  void append(std::span<const ExampleId> examples);

  bool operator==(const ClientLists&) const = default;

 private:
  std::vector<std::uint64_t> offsets_;
  std::vector<ExampleId> ids_;
};

/// How a partition was made: enough to make it again.
struct PartitionInfo {
  std::string group;   ///< its name in a partition file, FedNLP's where FedNLP has one
  std::string method;  ///< the partitioner's name; empty when the file lacks it
  std::optional<std::uint64_t> seed;
  std::map<std::string, double> numbers;       ///< alpha, beta, shards ...
  std::map<std::string, std::string> choices;  ///< by, test_mix, features ...
};

/// Which client holds which example. A client's lists may be empty.
///
///     for (ExampleId id : partition.train[client]) ...
struct Partition {
  ClientLists train;
  ClientLists test;  ///< as many clients as train
  PartitionInfo info;
  std::vector<std::int32_t> clusters;     ///< feature partitions: the cluster of every example; otherwise empty
  std::vector<std::string> client_names;  ///< natural partitions: the name of client c; otherwise empty

  std::size_t clients() const { return train.clients(); }
};

/// How well a partition covers its data.
struct Coverage {
  std::size_t held = 0;      ///< examples that some client holds
  std::size_t missing = 0;   ///< examples that no client holds
  std::size_t repeated = 0;  ///< surplus occurrences of ids
  bool exact() const { return missing == 0 && repeated == 0; }
};

/// DataError when an id exceeds the data's `examples`: the partition belongs to another dataset. `where` names the file
/// and group in the message.
Coverage check_against_data(const Partition& partition, std::size_t examples, const std::string& where);

/// How many clients have no training examples, and what to do about it, as one sentence; empty when there are none.
std::string empty_clients_warning(const Partition& partition);

/// Moves a share of every client's training examples to its test list: for data without a test split. With `times` the
/// latest ones, otherwise random ones; floor(share * size) per client. ConfigError unless 0 <= share < 1.
void hold_out(Partition& partition, double share, std::span<const std::int64_t> times, std::uint64_t seed);

}  // namespace chorus::inline partition
