#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/ports/workbench.h"
#include "infrastructure/federation/local_federation.h"

/// Distillation clients that are small enough for numpy (tests/golden/make_distillation_rounds.py): a linear classifier
/// f(x) = W x with W [K, D], full-batch gradient descent on the cross-entropy, a public set and a query set. Features
/// are x_ij = sin(1 + 3 i + 7 j + 11 s), s the index of the set; labels (i + s) mod K. With K = 1 it is a regression:
/// the mean squared error of the scores sin(2 + 5 i + 11 s).
namespace chorus::linear {

struct Client {
  std::int64_t examples = 6;
  int steps = 2;
  bool broken = false;  // its loss is NaN
  int twin_of = -1;     // has the data of this client; -1: data of its own
};

struct World {
  std::vector<Client> clients;
  std::int64_t features = 3, classes = 3, public_rows = 8, queries = 5;
  double learning_rate = 1;
  // What makes the settings of optimizers and dropout visible.
  double momentum = 0;       ///< v = momentum v + gradient, w = w - rate v; a new optimizer has v = 0
  bool decay = false;        ///< the rate of a learner falls linearly to 0 over the steps it was wished for
  bool dropout = false;      ///< where a learner predicts or measures with dropout, the first feature is 0
  bool texts_teach = false;  ///< the public set has labels that everybody may learn, as the texts of language models
  std::map<ClientId, ClientState> states = {};  // between rounds
  std::mutex mutex = {};

  std::int64_t parameters() const { return features * classes; }
  at::Tensor beginning() const;  // [P]
  at::Tensor x(std::int64_t set, std::int64_t rows) const;
  at::Tensor y(std::int64_t set, std::int64_t rows) const;
  /// Set s is client s; these two are the server's.
  static constexpr std::int64_t kPublic = 100, kQuery = 101;

  std::unique_ptr<Workbench> open(std::span<const ClientId> ids);
  std::unique_ptr<Workbench> server();
};

LocalFederationInput federation_input(World& world, std::size_t cohort_batch = 2, std::size_t workers = 1);

}  // namespace chorus::linear
