#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infrastructure/tracking/compare/axis.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline compare {

/// One evaluation with the costs up to it.
struct RunPoint {
  std::int64_t round = 0;
  double seconds = 0, bytes = 0, examples = 0;  ///< of all rounds up to this one
  double emulated_seconds = 0;                  ///< the same on the emulated clock
  Scores scores{};
};

/// A run as read from its folder, finished or not.
struct RunRecord {
  std::filesystem::path folder{};
  std::string label{};  ///< the folder's name
  RunInfo info{};
  std::string algorithm{}, metric{};
  bool higher_is_better = true;
  std::optional<double> target{};
  std::optional<RunSummary> summary{};          ///< unset: running, or killed
  std::int64_t rounds = 0, planned_rounds = 0;  ///< done and planned (0: unknown)
  double seconds = 0, bytes = 0, examples = 0;
  std::optional<double> emulated_seconds{};  ///< unset: not emulated
  std::vector<RunPoint> points{};            ///< evaluations of the main split, by rounds

  std::vector<std::string> metrics() const;  ///< scores of its evaluations
};

/// Reads a run folder, even while it is written. DataError when it is not one.
RunRecord read_run(const std::filesystem::path& folder);

/// Reads several, with distinct labels. ConfigError for a repeated folder.
std::vector<RunRecord> read_runs(std::span<const std::filesystem::path> folders);

/// The x axis of a plot. ConfigError unless it is round, seconds, bytes, examples or emulated.
enum class RunAxis { kRound, kSeconds, kBytes, kExamples, kEmulated };
RunAxis run_axis_named(const std::string& name);

/// The run's scores as a curve.
Curve curve_of(const RunRecord& run, const std::string& metric, RunAxis axis);

}  // namespace chorus::inline compare
