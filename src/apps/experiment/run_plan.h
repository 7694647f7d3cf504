#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/experiment/experiment_config.h"
#include "apps/experiment/machine.h"

namespace chorus::inline experiment {

/// Estimated cost of a run. Memory in bytes.
struct RunPlan {
  std::string description;  ///< of data, clients and network
  std::int64_t rounds = 0;
  double asked = 0;  ///< clients per round

  MachineShare machine = {};
  double client_memory = 0;     ///< per additional client of a batched computation, at worst
  double server_memory = 0;     ///< model, averages and unread replies
  double cohort_memory = 0;     ///< all computations of this machine side by side
  double cache_memory = 0;      ///< what the activation cache will keep of the training rows
  double peak_memory = 0;       ///< of the whole process: measured in the trial, and a quarter more
  double available_memory = 0;  ///< before anything began

  double bytes_down = 0, bytes_up = 0;  ///< per round, all clients

  std::optional<double> emulated_round_seconds = {}, emulated_seconds = {};
  std::string emulated_how = {};  ///< set where the estimate does not use the run's own work
  double device_memory = 0;       ///< of an emulated client; 0: not in the profile

  double setup_seconds = 0;       ///< reading, tokenizing (or its cache), loading
  double round_seconds = 0;       ///< real ones
  double evaluation_seconds = 0;  ///< of one evaluation
  double seconds = 0;             ///< of the whole run
  std::string how = {};           ///< how the real time was estimated
};

/// Reads everything the run would read and estimates its memory. When that does not fit: ConfigError with what to
/// change. Else the run itself is tried: two rounds of a few steps each, in a folder that is removed again, which gives
/// bytes (exactly, where messages have a fixed size), memory and speed. The emulated time comes from the cohorts the
/// run will really select, without training anybody.
RunPlan plan_run(const ExperimentConfig& config);

std::string to_text(const RunPlan& plan);
std::string to_json(const RunPlan& plan);

}  // namespace chorus::inline experiment
