#pragma once

#include <string>

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct NaturalConfig {
  std::string by = "client";  ///< the column that defines clients: client, source or label

  void describe(ConfigVisitor& v);
};

/// The data's own clients (Lin et al. 2022, "natural factors"; Dupuy et al. 2022, devices): one client per distinct
/// value, in byte order of the names, as FedNLP sorts `label_index_list`. The requested number of clients must be 0 or
/// the number of values. Train and test examples of a value go to the same client; a value of one split only leaves the
/// other empty. Registered as "natural".
class Natural : public Partitioner {
 public:
  explicit Natural(NaturalConfig config) : config_(std::move(config)) {}
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  NaturalConfig config_;
};

}  // namespace chorus::inline partition
