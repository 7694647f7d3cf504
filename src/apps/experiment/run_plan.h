#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"
#include "apps/experiment/machine.h"

namespace chorus::inline experiment {

/// One way to cut the network of a run in two (split learning), and what each side needs. Bytes.
struct SplitChoice {
  int layers = 0;  ///< at the client
  double client_memory = 0, server_memory = 0;
};

struct PlanOptions {
  std::optional<double> device_memory = {};  ///< bytes that a client's device has; asks for a cut that fits
};

/// Estimated cost of a run. Memory in bytes.
struct RunPlan {
  std::string description;  ///< of data, clients and network
  std::int64_t rounds = 0;
  double asked = 0;  ///< clients per round

  MachineShare machine = {};
  double client_memory = 0;     ///< per additional client in a batched computation, worst case
  double server_memory = 0;     ///< model, averages and unread replies
  double cohort_memory = 0;     ///< all computations of this machine side by side
  double cache_memory = 0;      ///< activation cache of the training rows
  double peak_memory = 0;       ///< of the whole process: measured in the trial, plus a quarter
  double available_memory = 0;  ///< before the plan starts

  double bytes_down = 0, bytes_up = 0;  ///< per round, all clients

  std::optional<double> emulated_round_seconds = {}, emulated_seconds = {};
  std::string emulated_how = {};  ///< set when the estimate does not use the run's own work
  double device_memory = 0;       ///< of an emulated client; 0: not in the profile

  std::vector<SplitChoice> cuts = {};        ///< of split learning, or if PlanOptions ask for one
  bool labels_stay = false;                  ///< with the head at the client
  double cut_bytes = 0;                      ///< of a batch's activations, one way
  std::optional<double> cut_memory = {};     ///< of the smallest device
  std::optional<int> suggested_layers = {};  ///< the most layers that fit there

  double setup_seconds = 0;       ///< reading, tokenizing (or its cache), loading
  double round_seconds = 0;       ///< wall clock
  double evaluation_seconds = 0;  ///< of one evaluation
  double seconds = 0;             ///< of the whole run
  std::string how = {};           ///< how the wall-clock time was estimated
};

/// Reads everything that the run would read and estimates its memory. ConfigError with advice when it does not fit.
/// Otherwise runs two rounds of a few steps each in a temporary folder, which gives bytes (exact for messages of fixed
/// size), memory and speed. The emulated time comes from the cohorts that the run will select, without training.
RunPlan plan_run(const ExperimentConfig& config, const PlanOptions& options = {});

std::string to_text(const RunPlan& plan);
std::string to_json(const RunPlan& plan);

}  // namespace chorus::inline experiment
