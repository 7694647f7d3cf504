#pragma once

#include <string>

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct ShardsConfig {
  std::int64_t shards = 2;   ///< shards per client; McMahan et al. use 2
  std::string by = "label";  ///< the column that examples are sorted by: label, source or client

  void describe(ConfigVisitor& v);
};

/// The pathological non-IID split of McMahan et al. (2017): sort by label, cut into n * shards pieces, give each client
/// `shards` of them at random. A client sees about as many labels as it has shards. With more shards than examples some
/// shards, and thus clients, are empty. Registered as "shards".
class Shards : public Partitioner {
 public:
  explicit Shards(ShardsConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  ShardsConfig config_;
};

}  // namespace chorus::inline partition
