#pragma once

#include <memory>
#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"
#include "application/tasks/encoded_dataset.h"
#include "apps/experiment/client_networks.h"
#include "apps/experiment/experiment_config.h"
#include "apps/experiment/public_data.h"
#include "apps/experiment/server_half.h"
#include "apps/experiment/task_model.h"
#include "core/device/gpu_warm_up.h"

namespace chorus::inline experiment {

/// A stretch of rounds over one set of clients' data. One, unless the run goes through segments of time.
struct Phase {
  std::string name = {};
  ClientLists train = {};
  std::int64_t rounds = 0;
};

/// A simulation, read and ready: everybody's data, who holds what, the task and the network. The two halves of the
/// federation (server_half.h, client_half.h) are made from it and borrow it.
///
///     const Experiment experiment(config);       // reads, tokenizes (once), deals out, loads
class Experiment {
 public:
  /// ConfigError or DataError for everything that does not fit together.
  explicit Experiment(const ExperimentConfig& config);
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  const ExperimentConfig& config() const { return config_; }
  const Dataset& data() const { return data_; }
  /// What both halves have in common.
  const TaskModel& task_model() const { return *model_; }
  const Task& task() const { return model_->task(); }
  const Tokenizer& tokenizer() const { return model_->tokenizer(); }
  const Model& model() const { return model_->model(); }
  const Params& params() const { return model_->params(); }

  const std::shared_ptr<const EncodedDataset>& train() const { return train_; }
  const std::shared_ptr<const EncodedDataset>& test() const { return test_; }
  const std::vector<Phase>& phases() const { return phases_; }
  /// The clients' own test examples.
  const ClientLists& client_tests() const { return client_tests_; }
  /// What the server tests on.
  const std::vector<std::uint32_t>& shared_test() const { return shared_test_; }
  const Partition& partition() const { return partition_; }
  /// Null without `public`.
  const PublicData* public_data() const { return public_.get(); }
  /// Networks other than the server's, and the index of each client's, or -1 (client_networks.h).
  const std::vector<ClientNetwork>& networks() const { return networks_; }
  const std::vector<int>& network_of() const { return network_of_; }
  /// What a client trains: one of the networks, or the server's.
  const TaskModel& model_of(ClientId client) const;
  /// Held-out examples of each segment of time (continual.segment_test); empty: none.
  const std::vector<TestSet>& segment_tests() const { return segment_tests_; }
  /// Those of them that attackers want answered otherwise, as they want them; null without an attack on the data.
  const TestSet* attacked_test() const { return attacked_test_.get(); }

  /// What was planted, and what is compared with it; empty without `audit`.
  const std::vector<Canary>& canaries() const { return canaries_; }
  const std::vector<std::uint32_t>& canary_references() const { return canary_references_; }

  /// One line about what was read, for a person.
  std::string description() const;

 private:
  void make_partition();
  void make_networks();
  void make_segments();
  void make_phases();
  void choose_test();
  void poison();
  void plant();
  void leave_out();

  ExperimentConfig config_;
  std::unique_ptr<GpuWarmUp> warm_up_;  // beside everything below
  Dataset data_;
  std::unique_ptr<const TaskModel> model_;
  std::unique_ptr<const PublicData> public_;
  std::vector<ClientNetwork> networks_;
  std::vector<int> network_of_;
  Partition partition_;
  bool held_out_ = false;  // the test examples are some of the training split
  std::shared_ptr<const EncodedDataset> train_, test_;
  std::vector<Phase> phases_;
  ClientLists client_tests_;
  std::vector<std::uint32_t> shared_test_;
  std::vector<Canary> canaries_;
  std::vector<std::uint32_t> canary_references_;
  std::vector<std::vector<std::uint32_t>> segment_examples_;
  std::vector<TestSet> segment_tests_;
  std::unique_ptr<const Dataset> attacked_data_;
  std::unique_ptr<const TestSet> attacked_test_;
};

}  // namespace chorus::inline experiment
