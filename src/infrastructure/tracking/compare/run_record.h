#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infrastructure/tracking/compare/axis.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus {

/// One evaluation, with what it had taken to get there.
struct RunPoint {
  std::int64_t round = 0;
  double seconds = 0, bytes = 0, examples = 0;  ///< of all rounds up to this one
  double emulated_seconds = 0;                  ///< of them, on the clients' devices
  Scores scores{};
};

/// A run as its folder tells it, finished or not.
struct RunRecord {
  std::filesystem::path folder{};
  std::string label{};  ///< the folder's name
  RunInfo info{};
  std::string algorithm{}, metric{};
  bool higher_is_better = true;
  std::optional<double> target{};
  std::optional<RunSummary> summary{};          ///< nothing: it goes on, or was killed
  std::int64_t rounds = 0, planned_rounds = 0;  ///< done and meant (0: not said)
  double seconds = 0, bytes = 0, examples = 0;
  std::optional<double> emulated_seconds{};  ///< nothing: it was not emulated
  std::vector<RunPoint> points{};            ///< evaluations of the main split, by rounds

  std::vector<std::string> metrics() const;  ///< the scores that its evaluations have
};

/// Reads a folder; also one that is being written. DataError when it is none.
RunRecord read_run(const std::filesystem::path& folder);

/// Reads several, and makes their labels differ. ConfigError when one is named twice.
std::vector<RunRecord> read_runs(std::span<const std::filesystem::path> folders);

/// What stands on a picture's x axis. ConfigError for anything but round, seconds, bytes, examples, emulated.
enum class RunAxis { kRound, kSeconds, kBytes, kExamples, kEmulated };
RunAxis run_axis_named(const std::string& name);

/// The run's scores as a line.
Curve curve_of(const RunRecord& run, const std::string& metric, RunAxis axis);

}  // namespace chorus
