#pragma once

#include <string>

#include "application/data/partition/partitioner.h"

namespace chorus {

struct NaturalConfig {
  std::string by = "client";  ///< who the data says an example belongs to: client, source or label

  void describe(ConfigVisitor& v);
};

/// The data's own clients (paper 000, "natural factors"; paper 002, devices): one client a distinct value among the
/// examples, in byte order of the names, as FedNLP sorts `label_index_list`. The request's number of clients must be 0
/// or the number of values. Train and test go to the same client; a value of one split only leaves the other empty.
/// Registered as "natural".
class Natural : public Partitioner {
 public:
  explicit Natural(NaturalConfig config) : config_(std::move(config)) {}
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  NaturalConfig config_;
};

}  // namespace chorus
