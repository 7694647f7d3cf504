#pragma once

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct QuantityDirichletConfig {
  double beta = 5.0;             ///< concentration; > 0; large: equal sizes
  std::int64_t min_size = 1;     ///< minimum examples per client and split; 0 allows empty clients
  std::int64_t max_draws = 100;  ///< draws of the sizes before giving up on min_size

  void describe(ConfigVisitor& v);
};

/// Client sizes z ~ Dirichlet(beta 1_n), cut at int(cumsum(z) * N) as in FedNLP; repeated until every client has
/// `min_size`. ConfigError when that is impossible (fewer than n * min_size examples) or does not happen.
std::vector<std::size_t> draw_sizes(const SplitView& view, const PartitionRequest& request,
                                    const QuantityDirichletConfig& config);

/// Quantity skew (Lin et al. 2022, section 3.2 and Fig. 8): sizes by `draw_sizes`, examples uniformly. Train and test
/// sizes are drawn independently unless the test mix is the same. Registered as "quantity_dirichlet".
class QuantityDirichlet : public Partitioner {
 public:
  explicit QuantityDirichlet(QuantityDirichletConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  QuantityDirichletConfig config_;
};

struct LabelQuantityConfig {
  double alpha = 1.0;            ///< concentration of the label mixes; > 0
  double beta = 5.0;             ///< concentration of the sizes; > 0
  std::string by = "label";      ///< the column that the mix is over: label, source or client
  std::int64_t min_size = 1;     ///< minimum examples per client and split; 0 allows empty clients
  std::int64_t max_draws = 100;  ///< draws of the sizes before giving up on min_size

  void describe(ConfigVisitor& v);
};

/// Label and quantity skew together ("it is also easy to combine both factors", Lin et al. 2022, section 3.2): sizes by
/// `draw_sizes`, then label mixes with those sizes. Registered as "label_quantity".
class LabelQuantity : public Partitioner {
 public:
  explicit LabelQuantity(LabelQuantityConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  LabelQuantityConfig config_;
};

}  // namespace chorus::inline partition
