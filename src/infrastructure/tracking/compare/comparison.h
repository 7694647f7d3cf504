#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "infrastructure/tracking/compare/run_record.h"
#include "infrastructure/tracking/compare/terminal_plot.h"

namespace chorus::inline compare {

struct CompareOptions {
  std::vector<std::filesystem::path> runs{};
  std::string metric{};  ///< empty: the runs' main score
  std::string x = "round";
  std::optional<double> target{};                   ///< unset: the runs' own target
  std::optional<std::filesystem::path> baseline{};  ///< a run, added to the others if missing
};

/// One row: the results of a run in the compared metric.
struct ComparedRun {
  RunRecord run{};
  std::optional<double> best{}, last{};  ///< unset: not evaluated yet
  std::int64_t best_round = 0;
  std::optional<std::int64_t> rounds_to_target{};
  std::optional<double> emulated_to_target{};  ///< seconds
};

/// A comparison of runs: the output of `chorus compare`.
///
///     const Comparison comparison = compare_runs({.runs = {"runs/fedavg-001", "runs/fedprox-001"}});
///     fmt::print("{}", to_text(comparison, plot_options_for(STDOUT_FILENO)));
struct Comparison {
  std::string metric{};
  bool higher_is_better = true;
  RunAxis axis = RunAxis::kRound;
  std::string x{};  ///< name of the axis; long emulated times are in hours
  std::optional<double> target{};
  std::vector<ComparedRun> runs{};
  std::optional<std::size_t> baseline{};  ///< index in `runs`
};

/// DataError for a folder that is not a run; ConfigError when the runs have different main metrics and none was chosen,
/// or lack the chosen one.
Comparison compare_runs(const CompareOptions& options);

/// Relative change against a baseline: +0.05 is 5 % more. nullopt when the baseline is 0 or a value is not finite.
std::optional<double> change_against(double value, double baseline);

std::vector<Curve> curves_of(const Comparison& comparison);
std::string to_text(const Comparison& comparison, const PlotOptions& plot);
std::string to_json(const Comparison& comparison);
std::string to_svg(const Comparison& comparison);

}  // namespace chorus::inline compare
