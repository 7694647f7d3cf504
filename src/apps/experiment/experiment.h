#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"
#include "application/models/model.h"
#include "application/peft/tuned_network.h"
#include "application/tasks/encoded_dataset.h"
#include "apps/experiment/experiment_config.h"
#include "core/device/gpu_warm_up.h"

namespace chorus::inline experiment {

/// A stretch of rounds over one set of clients' data. One, unless the run goes through segments of time.
struct Phase {
  std::string name = {};
  ClientLists train = {};
  std::int64_t rounds = 0;
};

/// Everything an experiment needs, read and ready: the data, who holds it, the task, the network. What is made from it
/// (clients, federation) borrows it.
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
  const Task& task() const { return *task_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TunedNetwork& network() const { return *network_; }
  const Model& model() const { return network_->model(); }
  /// The network as it begins, C = 1.
  const Params& params() const { return network_->params(); }

  const std::shared_ptr<const EncodedDataset>& train() const { return train_; }
  const std::shared_ptr<const EncodedDataset>& test() const { return test_; }
  const std::vector<Phase>& phases() const { return phases_; }
  /// The clients' own test examples.
  const ClientLists& client_tests() const { return client_tests_; }
  /// What the server tests on.
  const std::vector<std::uint32_t>& shared_test() const { return shared_test_; }
  const Partition& partition() const { return partition_; }

  /// One line about what was read, for a person.
  std::string description() const;

  /// Writes a version of the network with these values [P] as a Hugging Face folder, tokenizer included. Low-rank
  /// updates are merged, and stand in `folder`/adapter besides; adapters and prefixes lie in the folder itself.
  void save_model(const std::filesystem::path& folder, const at::Tensor& values, const Variant& variant) const;

 private:
  void make_network();
  void check_cache(const Model& model) const;
  void make_partition();
  void make_segments();
  void make_phases();
  void choose_test();

  ExperimentConfig config_;
  at::Device device_;
  GpuWarmUp warm_up_;  // beside everything below
  Dataset data_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<TunedNetwork> network_;
  std::vector<std::string> fresh_head_;  // what the network's folder does not have
  Partition partition_;
  bool held_out_ = false;  // the test examples are some of the training split
  std::shared_ptr<const EncodedDataset> train_, test_;
  std::vector<Phase> phases_;
  ClientLists client_tests_;
  std::vector<std::uint32_t> shared_test_;
};

}  // namespace chorus::inline experiment
