#include "apps/audits/audited_run.h"

#include <fmt/format.h>

#include "application/trainer/cohort_trainer.h"
#include "application/trainer/example_losses.h"
#include "apps/experiment/run_checkpoints.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline audits {
namespace {

namespace fs = std::filesystem;

double setting_of(Choice<Aggregations> aggregation, std::string_view name) {
  ConfigVisitor visitor;
  aggregation.describe(visitor);
  const ConfigField* field = visitor.find(name);
  return field == nullptr ? 0 : std::get<double>(field->get().front().second);
}

fs::path temporary_folder() {
  std::string pattern = (fs::temp_directory_path() / "chorus_audit_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw WorldError("no temporary folder can be made; check TMPDIR");
  return pattern;
}

}  // namespace

AuditedRun::AuditedRun(const fs::path& folder) : name_(folder.filename().string()) {
  RunFolder opened = RunFolder::open(folder);
  const auto summary = read_run_summary(folder);
  if (!summary) {
    throw DataError(fmt::format("{}: only a finished run can be audited; continue it with: chorus resume {}",
                                folder.string(), folder.string()));
  }
  privacy_ = summary->privacy;
  const auto config = ConfigDocument::read(opened.config()).load<ExperimentConfig>();
  experiment_ = std::make_unique<const Experiment>(config);
  const ServerHalf server(experiment_->task_model(),
                          {experiment_->data(), experiment_->test(), experiment_->shared_test()});
  start_ = server.start();
  RunCheckpoints checkpoints(opened, config);
  checkpoints.begin(server, experiment_->data().fingerprint().hex());
  model_ = checkpoints.state().loop.model.clone();
}

TrainerInput AuditedRun::trainer() const { return {experiment_->task(), experiment_->model(), experiment_->params()}; }

std::vector<double> AuditedRun::losses(const at::Tensor& values, std::span<const std::uint32_t> examples) const {
  return example_losses(trainer(), values, experiment_->train(), examples);
}

std::vector<double> AuditedRun::test_losses(const at::Tensor& values, std::span<const std::uint32_t> examples) const {
  return example_losses(trainer(), values, experiment_->test(), examples);
}

SeenUpdates::SeenUpdates(const AuditedRun& run) : run_(run) {
  const ExperimentConfig& config = run.config();
  if (config.aggregation.traits().noisy_sum && run.privacy()) {
    clip_ = setting_of(config.aggregation, "clip");
    noise_ = run.privacy()->noise;
    protection_ = fmt::format("clipped to {:.3g}, server noise of {:.3g} times it", *clip_, *noise_);
  }
  if (config.trainer.privacy) {
    folder_ = temporary_folder();
    ExampleGuardInput input{.config = *config.trainer.privacy, .folder = folder_};
    if (input.config.noise <= 0) {
      if (!run.privacy()) throw DataError(run.name() + ": its summary has no noise to audit with");
      input.config.noise = run.privacy()->noise;
    }
    input.config.epsilon = 0;
    input.config.copy = "none";
    protection_ += fmt::format("{}every example clipped to {:.3g}, client noise of {:.3g} times it",
                               protection_.empty() ? "" : "; ", input.config.clip, input.config.noise);
    guard_ = std::shared_ptr<ExampleGuard>(ExampleGuards::make("secret", input).release(),
                                           [folder = folder_](ExampleGuard* guard) {
                                             delete guard;
                                             std::error_code ignored;
                                             fs::remove_all(folder, ignored);
                                           });
  }
}

at::Tensor SeenUpdates::update(const Training& training, bool protect) const {
  const Experiment& experiment = run_.experiment();
  TrainerConfig config = run_.config().trainer;
  if (!protect) config.privacy.reset();
  if (training.one_step) {
    config.steps = 1;
    config.batch_size = static_cast<std::int64_t>(training.examples.size());
    config.accumulate = 1;
  }
  TrainerInput input = run_.trainer();
  input.guard = guard_.get();
  const TrainClient client{training.client, experiment.task().client_data(experiment.train(), training.examples),
                           static_cast<double>(training.examples.size())};
  const TrainMoment moment{static_cast<std::uint64_t>(run_.config().seed), 1, 1};
  const TrainResult result =
      CohortTrainer(input, config).train(std::span(&client, 1), run_.model(), moment, {.updates = true}, {});
  if (!result.failures[0].empty()) throw DataError("a client cannot be attacked: " + result.failures[0]);
  return result.values[0].cpu();
}

at::Tensor SeenUpdates::plain(const Training& training) const { return update(training, false); }

at::Tensor SeenUpdates::seen(const Training& training) const {
  at::Tensor result = update(training, true);
  if (clip_) {
    result = result * std::min(1.0, *clip_ / std::max(result.norm().item<double>(), 1e-30));
    result += torch::randn_like(result) * (*clip_ * *noise_);
  }
  return result;
}

}  // namespace chorus::inline audits
