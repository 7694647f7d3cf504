#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "algorithm/compression/filter_end.h"
#include "application/peft/tuned_network.h"
#include "application/tasks/task.h"
#include "apps/experiment/experiment_config.h"
#include "apps/experiment/task_facts.h"

namespace chorus::inline experiment {

/// The network described by `model.fresh`, with a vocabulary of this size unless it names one. Its keys are not
/// checked; see require_known_keys.
ModelConfig fresh_config(const NetworkConfig& network, std::size_t vocabulary);

/// What both halves of a federation share: the task with its tokenizer, and the network. It depends on the
/// configuration and the task's facts alone, never on training data, so a server and its clients build the same in
/// different processes. In a simulation both halves borrow one. Clients with different networks (RosterEntry::model)
/// have one per key.
///
///     const TaskModel model(config, TaskFacts::of(data));
class TaskModel {
 public:
  /// ConfigError for parts that do not fit together; DataError when the tokenizer or the network differs from the
  /// facts.
  TaskModel(const ExperimentConfig& config, const TaskFacts& facts);
  TaskModel(const TaskModel&) = delete;
  TaskModel& operator=(const TaskModel&) = delete;

  const ExperimentConfig& config() const { return config_; }
  const Task& task() const { return *task_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TunedNetwork& network() const { return *network_; }
  const Model& model() const { return network_->model(); }
  /// The initial network, C = 1.
  const Params& params() const { return network_->params(); }
  at::Device device() const { return params().device(); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(config_.seed); }

  /// Fingerprint of the trainable layout; requests state it.
  std::uint64_t layout() const { return model().layout().fingerprint(); }
  /// What another process needs to build the same model, with all fingerprints. Reads every frozen value.
  TaskFacts facts() const;

  /// What both ends of the channel's filters know: the configuration, the trainable layout, and the initial network.
  /// Borrows this object.
  FilterEndInput filters() const;

  /// Writes a variant of the network with these values [P] as a Hugging Face folder with its tokenizer. LoRA updates
  /// are merged and also written to `folder`/adapter; adapters and prefixes are in the folder itself.
  void save(const std::filesystem::path& folder, const at::Tensor& values, const Variant& variant) const;

 private:
  void make_network();
  void check_cache(const Model& model) const;
  void check_facts(const TaskFacts& facts) const;

  ExperimentConfig config_;
  Formulation formulation_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<TunedNetwork> network_;
  std::vector<std::string> fresh_head_;  // parameters missing in the network's folder
};

}  // namespace chorus::inline experiment
