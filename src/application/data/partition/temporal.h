#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct TemporalConfig {
  std::string slices = "count";  ///< slices of equal count (of training examples) or duration

  void describe(ConfigVisitor& v);
};

/// The start times of slices 1 .. n-1; slice s holds the times t with exactly s boundaries <= t. Equal times stay
/// together, so slices of equal count are only as equal as the times allow.
std::vector<std::int64_t> slice_boundaries(std::span<const std::int64_t> times, std::size_t slices,
                                           const std::string& how);
/// The slice of a time: the number of boundaries <= it.
std::size_t slice_of(std::int64_t time, std::span<const std::int64_t> boundaries);

/// Temporal slices: client s holds what was written in slice s; test examples use the boundaries of the training split
/// (or their own, without a training split). Slices without examples are empty clients. Registered as "temporal".
class Temporal : public Partitioner {
 public:
  explicit Temporal(TemporalConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  TemporalConfig config_;
};

/// The same clients, slice by slice (continual federated learning, Dupuy et al. 2022: months 6 to 11 in three parts):
/// element s has every client of `partition` with its training examples of slice s; test lists are kept whole. `times`
/// is the population's column.
std::vector<Partition> slice_clients(const Partition& partition, std::span<const std::int64_t> times,
                                     std::span<const std::int64_t> boundaries);

}  // namespace chorus::inline partition
