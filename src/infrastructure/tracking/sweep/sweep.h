#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "infrastructure/tracking/run_summary.h"
#include "infrastructure/tracking/sweep/sweep_plan.h"

namespace chorus::inline sweep {

struct SweepOptions {
  std::filesystem::path config{};
  std::vector<SweepCase> cases{};  ///< each is a value of an additional key
  std::vector<SweepKey> keys{};
  std::vector<std::string> overrides{};  ///< the same for all runs
  std::uint64_t seeds = 1;               ///< seeds per point: first_seed, first_seed + 1, ...
  std::uint64_t first_seed = 1;
  std::size_t jobs = 1;            ///< concurrent runs
  std::filesystem::path folder{};  ///< runs/NAME
  std::filesystem::path program = "/proc/self/exe";
  /// Called with the settings of every point before the first run starts; throws for a mistake.
  std::function<void(const std::vector<std::string>&)> check{};
};

/// One run of a sweep: a point with a seed.
struct SweepRun {
  std::size_t point = 0;  ///< index in Sweep::points
  std::uint64_t seed = 0;
  std::filesystem::path folder{}, log{};
  std::optional<RunSummary> summary{};  ///< unset: failed, or not run yet
  bool skipped = false;                 ///< finished before
  std::string failure{};                ///< one line; empty: no failure
};

struct MeanDeviation {
  std::size_t count = 0;
  double mean = 0, deviation = 0;  ///< of the sample (n - 1); 0 for one value
};
MeanDeviation mean_deviation(const std::vector<double>& values);

/// The results of a sweep. `order` lists the points, best mean first, those without results last.
struct Sweep {
  std::string metric{};
  bool higher_is_better = true;
  std::vector<SweepPoint> points{};
  std::vector<SweepRun> runs{};
  std::vector<MeanDeviation> best{}, last{};  ///< of the main score, by point
  std::vector<std::size_t> order{};
  bool interrupted = false;  ///< Ctrl-C: some runs are missing
};

/// Runs `PROGRAM run CONFIG key=value... seed=S --run-folder DIR` for every point and seed, each in its own folder
/// FOLDER/NAME with its output in FOLDER/NAME.log. Finished runs are not repeated and those with a checkpoint continue
/// by `PROGRAM resume DIR`, so that repeating the command continues a killed sweep. A failed run is recorded and the
/// others continue. Writes FOLDER/sweep.json after every run and calls `progress` for each run that ends.
///
/// ConfigError when the folder belongs to a sweep of another configuration file, or holds a foreign file; WorldError
/// when another process works on it.
Sweep run_sweep(const SweepOptions& options, const std::function<void(const Sweep&, const SweepRun&)>& progress = {});

std::string to_text(const Sweep& sweep);
std::string to_json(const Sweep& sweep);

}  // namespace chorus::inline sweep
