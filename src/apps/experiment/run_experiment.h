#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "apps/experiment/experiment_config.h"
#include "apps/experiment/trial_asks.h"
#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline experiment {

/// Where a run goes and who may stop it.
struct RunRequest {
  std::filesystem::path folder = {};      ///< exactly this; empty: runs/<name>-001 and so on
  std::filesystem::path parent = "runs";  ///< of the folder, when it is not given
  std::string command = {};               ///< as typed, for run.json
  std::string version = {};               ///< of the program
  std::int64_t rounds = 0;                ///< resume: train so many in all; 0: as many as the run was made for
  bool trial = false;                     ///< its results are thrown away, and nobody sees them
  TrialAsks* asks = nullptr;              ///< where a trial's asks are recorded, by round
  /// How often the user has asked to stop: once ends after the round, twice at once. May be empty.
  std::function<int()> interrupts = {};
};

struct RunReport {
  std::filesystem::path folder;  ///< empty: this process only hosted clients of an MPI job
  RunSummary summary;
  std::string own_models = {};  ///< where clients' own models are, for people; empty: there is nothing to say
};

/// Reads everything, makes the run folder, trains, and leaves metrics, checkpoints, summary and model there; no
/// model where the server has none (ServerHalf::has_model). When the user stops it: Interrupted, whose sentence says
/// how to go on.
RunReport run_experiment(const ExperimentConfig& config, const RunRequest& request);

/// Goes on where the newest checkpoint of a run ends, to the same result as if it had never stopped. A finished run is
/// only summarised again, unless `request.rounds` makes it longer; its config.yaml then says so.
RunReport resume_experiment(const std::filesystem::path& folder, const RunRequest& request);

}  // namespace chorus::inline experiment
