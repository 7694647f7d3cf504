#pragma once

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct UniformConfig {
  bool fednlp_chunks = false;  ///< chunks of ceil(N / n), as in FedNLP: the last clients can be short or empty

  void describe(ConfigVisitor& v);
};

/// IID: shuffle, then cut into pieces whose sizes differ by at most one. With more clients than examples the surplus
/// clients are empty. Registered as "uniform" and "iid".
class Uniform : public Partitioner {
 public:
  explicit Uniform(UniformConfig config) : config_(config) {}
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  UniformConfig config_;
};

}  // namespace chorus::inline partition
