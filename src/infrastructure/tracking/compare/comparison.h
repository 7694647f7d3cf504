#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "infrastructure/tracking/compare/run_record.h"
#include "infrastructure/tracking/compare/terminal_plot.h"

namespace chorus {

struct CompareOptions {
  std::vector<std::filesystem::path> runs{};
  std::string metric{};  ///< empty: the runs' main one
  std::string x = "round";
  std::optional<double> target{};                   ///< nothing: the one of the runs
  std::optional<std::filesystem::path> baseline{};  ///< a run; it joins the others when it is not among them
};

/// One row: what a run reached, in the metric that is compared.
struct ComparedRun {
  RunRecord run{};
  std::optional<double> best{}, last{};  ///< nothing: not evaluated yet
  std::int64_t best_round = 0;
  std::optional<std::int64_t> rounds_to_target{};
  std::optional<double> emulated_to_target{};  ///< seconds
};

/// Runs side by side: what `chorus compare` shows.
///
///     const Comparison comparison = compare_runs({.runs = {"runs/fedavg-001", "runs/fedprox-001"}});
///     fmt::print("{}", to_text(comparison, plot_options_for(STDOUT_FILENO)));
struct Comparison {
  std::string metric{};
  bool higher_is_better = true;
  RunAxis axis = RunAxis::kRound;
  std::string x{};  ///< what the axis is called; emulated time is told in hours where it is long
  std::optional<double> target{};
  std::vector<ComparedRun> runs{};
  std::optional<std::size_t> baseline{};  ///< index in `runs`
};

/// DataError for a folder that is no run; ConfigError when the runs have different main metrics and none was chosen, or
/// lack the one that was.
Comparison compare_runs(const CompareOptions& options);

/// Relative change against a baseline: +0.05 is 5 % more. Nothing where the baseline is 0 or one of them is not finite.
std::optional<double> change_against(double value, double baseline);

std::vector<Curve> curves_of(const Comparison& comparison);
std::string to_text(const Comparison& comparison, const PlotOptions& plot);
std::string to_json(const Comparison& comparison);
std::string to_svg(const Comparison& comparison);

}  // namespace chorus
