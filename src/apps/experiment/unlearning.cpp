#include "apps/experiment/unlearning.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/experiment/experiment_config.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/files/files.h"
#include "infrastructure/checkpoint/checkpoint_store.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline experiment {
namespace {

namespace fs = std::filesystem;

void check_request(const UnlearnRequest& request, const ExperimentConfig& config) {
  if (!read_run_summary(request.run)) {
    throw ConfigError(fmt::format("{}: only a finished run can forget; continue it with: chorus resume {}",
                                  request.run.string(), request.run.string()));
  }
  if (config.continual) throw ConfigError("a continual run cannot forget: its clients belong to segments of time");
  if (request.clients.empty()) throw ConfigError("--client: say who is to be forgotten");
  if (fs::exists(request.out)) {
    throw ConfigError(fmt::format("{} exists already; give another folder with --out", request.out.string()));
  }
}

// Everything but the oldest checkpoint; its round.
std::int64_t keep_oldest(const fs::path& checkpoints, const ExperimentConfig& config) {
  const CheckpointStore store(checkpoints, static_cast<std::size_t>(config.checkpoint.keep));
  const auto rounds = store.rounds();
  if (rounds.empty()) throw DataError(fmt::format("{}: there is no checkpoint to go back to", checkpoints.string()));
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (entry.path().filename() != fmt::format("round_{:06}", rounds.front())) fs::remove_all(entry.path());
  }
  return rounds.front();
}

}  // namespace

RunReport unlearn(const UnlearnRequest& request, const RunRequest& how) {
  auto config = ConfigDocument::read(RunFolder::open(request.run).config()).load<ExperimentConfig>();
  check_request(request, config);
  fs::create_directories(request.out);
  try {
    for (const auto& entry : fs::directory_iterator(request.run)) {
      const std::string name = entry.path().filename().string();
      const bool state = name == "checkpoints" || name == "clients" || name == "metrics.jsonl";
      const bool kept = name == "run.json" || name.ends_with(".ledger") ||
                        (state && request.method == UnlearnRequest::Method::kRollback);
      if (kept) fs::copy(entry.path(), request.out / name, fs::copy_options::recursive);
    }
    config.clients.exclude.insert(config.clients.exclude.end(), request.clients.begin(), request.clients.end());
    if (request.method == UnlearnRequest::Method::kRollback) {
      const std::int64_t from = keep_oldest(request.out / "checkpoints", config);
      const std::int64_t more = request.rounds > 0 ? request.rounds : std::max<std::int64_t>(config.rounds - from, 1);
      config.rounds = from + more;
    }
    write_file(request.out / "config.yaml", config_to_yaml(config, "experiment"));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(request.out, ignored);
    throw;
  }
  return resume_experiment(request.out, how);
}

}  // namespace chorus::inline experiment
