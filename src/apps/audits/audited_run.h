#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "application/trainer/train_client.h"
#include "apps/experiment/experiment.h"
#include "apps/experiment/server_half.h"
#include "core/base/privacy_report.h"
#include "core/ports/example_guard.h"

namespace chorus::inline audits {

/// A finished run as an attacker has it who knows everything but the training examples: the data it was made from, the
/// model before and after, and what updates look like.
///
///     const AuditedRun run("runs/demo-001");
///     const std::vector<double> losses = run.losses(run.model(), examples);
class AuditedRun {
 public:
  /// Reads the run's data again; its paths start from the current folder. DataError where it was not finished.
  explicit AuditedRun(const std::filesystem::path& folder);

  const Experiment& experiment() const { return *experiment_; }
  const ExperimentConfig& config() const { return experiment_->config(); }
  const std::string& name() const { return name_; }
  /// What trains, before the first round and after the last: [P].
  const at::Tensor& start() const { return start_; }
  const at::Tensor& model() const { return model_; }
  /// What the run reports; empty without differential privacy.
  const std::optional<PrivacyReport>& privacy() const { return privacy_; }

  /// Of training examples, and of test examples.
  std::vector<double> losses(const at::Tensor& values, std::span<const std::uint32_t> examples) const;
  std::vector<double> test_losses(const at::Tensor& values, std::span<const std::uint32_t> examples) const;

  /// What trains a client, without a guard.
  TrainerInput trainer() const;

 private:
  std::string name_;
  std::unique_ptr<const Experiment> experiment_;
  at::Tensor start_, model_;
  std::optional<PrivacyReport> privacy_;
};

/// Updates of clients that train on given examples from the run's final model, as they are without protection and as an
/// attacker sees them in this run: with the client's own noise (trainer.privacy), or clipped and with the server's
/// noise (private_mean, seen by everybody but the server, as if no other client took part). Charges no budget.
class SeenUpdates {
 public:
  explicit SeenUpdates(const AuditedRun& run);

  /// In words; empty: the run protects nothing.
  const std::string& protection() const { return protection_; }

  /// [P]. `one_step`: a single step on one batch of these examples, else a round of training.
  struct Training {
    ClientId client = 0;
    std::span<const std::uint32_t> examples;
    bool one_step = false;
  };
  at::Tensor plain(const Training& training) const;
  at::Tensor seen(const Training& training) const;

 private:
  at::Tensor update(const Training& training, bool protect) const;

  const AuditedRun& run_;
  std::string protection_;
  std::optional<double> clip_, noise_;  // of private_mean
  std::filesystem::path folder_;        // of the guard's ledger, removed with the guard
  std::shared_ptr<ExampleGuard> guard_;
};

}  // namespace chorus::inline audits
