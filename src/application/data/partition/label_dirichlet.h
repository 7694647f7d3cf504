#pragma once

#include <string>

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct LabelDirichletConfig {
  double alpha = 1.0;        ///< concentration; > 0; small: one label per client, large: the mix of all data
  std::string by = "label";  ///< the column that the mix is over: label, source or client
  std::string remainder =
      "last";  ///< who gets the remaining N mod n examples: last (FedNLP) or spread over the first clients

  void describe(ConfigVisitor& v);
};

/// Label skew with equal sizes (Lin et al. 2022, section 3.2): label_deal.h with sizes L = floor(N / n). The last
/// client also takes the remainder, as in FedNLP, or with remainder = spread the first N mod n clients take one more
/// each. With more clients than examples, "last" is an error (FedNLP's rule would give everything to the last client),
/// and "spread" leaves clients empty. Registered as "label_dirichlet".
class LabelDirichlet : public Partitioner {
 public:
  explicit LabelDirichlet(LabelDirichletConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  LabelDirichletConfig config_;
};

/// Equal client sizes plus the remainder. ConfigError when `remainder` is neither last nor spread, or is last and the
/// split has fewer examples than clients.
std::vector<std::size_t> equal_sizes(const SplitView& view, std::size_t clients, const std::string& remainder);

}  // namespace chorus::inline partition
