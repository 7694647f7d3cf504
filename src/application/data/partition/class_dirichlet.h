#pragma once

#include <string>

#include "application/data/partition/partitioner.h"

namespace chorus::inline partition {

struct ClassDirichletConfig {
  double alpha = 1.0;        ///< concentration over clients; > 0; FedID uses 100 for "IID" and 1, 0.1 for skew
  std::string by = "label";  ///< the column that defines the classes: label, source or client

  void describe(ConfigVisitor& v);
};

/// The split of FedID (Ma et al. 2023, as published): each class is shuffled and cut among the clients by shares ~
/// Dirichlet(alpha 1_n), at int(cumsum * count). Sizes are unequal and clients can be empty. Registered as
/// "class_dirichlet".
class ClassDirichlet : public Partitioner {
 public:
  explicit ClassDirichlet(ClassDirichletConfig config);
  Partition make(const Population& population, const PartitionRequest& request) const override;

 private:
  ClassDirichletConfig config_;
};

}  // namespace chorus::inline partition
