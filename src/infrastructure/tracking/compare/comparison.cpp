#include "infrastructure/tracking/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "infrastructure/tracking/compare/svg_plot.h"

namespace chorus::inline compare {
namespace {

constexpr double kLongInSeconds = 2 * 3600;  // shown in hours

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The direction of scores other than the main one, which runs do not record.
bool name_means_lower(const std::string& metric) {
  for (const char* word : {"loss", "perplexity", "error", "seconds", "bytes"}) {
    if (metric.find(word) != std::string::npos) return true;
  }
  return false;
}

std::string chosen_metric(const std::vector<RunRecord>& runs, const std::string& asked) {
  if (!asked.empty()) {
    for (const RunRecord& run : runs) {
      const std::vector<std::string> known = run.metrics();
      if (run.points.empty() || std::find(known.begin(), known.end(), asked) != known.end()) continue;
      throw ConfigError(fmt::format("{}: has no score '{}'{} (it has: {})", run.folder.string(), asked,
                                    did_you_mean(asked, known), fmt::join(known, ", ")));
    }
    return asked;
  }
  std::string metric;
  for (const RunRecord& run : runs) {
    if (run.metric.empty() || run.metric == metric) continue;
    if (!metric.empty()) {
      std::set<std::string> common;
      for (const std::string& name : runs.front().metrics()) common.insert(name);
      for (const RunRecord& other : runs) {
        const std::vector<std::string> known = other.metrics();
        std::erase_if(common,
                      [&](const std::string& name) { return std::count(known.begin(), known.end(), name) == 0; });
      }
      const std::string way_out =
          common.empty() ? "and they have no score in common"
                         : fmt::format("choose one they all have with --metric: {}", fmt::join(common, ", "));
      throw ConfigError(fmt::format("these runs have different main scores ({} and, in {}, {}); {}", metric,
                                    run.folder.string(), run.metric, way_out));
    }
    metric = run.metric;
  }
  if (metric.empty()) throw ConfigError("none of these runs has been evaluated yet; wait for the first evaluation");
  return metric;
}

ComparedRun measured(RunRecord run, const Comparison& comparison) {
  ComparedRun result;
  const auto better = [&](double a, double b) { return comparison.higher_is_better ? a > b : a < b; };
  for (const RunPoint& point : run.points) {
    const auto score = point.scores.find(comparison.metric);
    if (score == point.scores.end() || !std::isfinite(score->second)) continue;
    result.last = score->second;
    if (!result.best || better(score->second, *result.best)) {
      result.best = score->second;
      result.best_round = point.round;
    }
    if (comparison.target && !result.rounds_to_target && !better(*comparison.target, score->second)) {
      result.rounds_to_target = point.round;
      if (run.emulated_seconds) result.emulated_to_target = point.emulated_seconds;
    }
  }
  result.run = std::move(run);
  return result;
}

Json optional_json(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

Json scores_json(const Scores& scores) {
  Json json = Json::object();
  for (const auto& [name, value] : scores) json[name] = optional_json(value);
  return json;
}

Json run_json(const ComparedRun& compared, const Comparison& comparison) {
  const RunRecord& run = compared.run;
  Json json = {{"run", run.label},
               {"folder", run.folder.string()},
               {"algorithm", run.algorithm},
               {"status", run.summary ? run.summary->status : "unfinished"},
               {"rounds", run.rounds},
               {"best", optional_json(compared.best)},
               {"best_round", compared.best_round},
               {"last", optional_json(compared.last)},
               {"examples", run.examples},
               {"bytes", run.bytes},
               {"seconds", run.seconds}};
  if (run.emulated_seconds) json["emulated_seconds"] = *run.emulated_seconds;
  if (comparison.target) {
    json["rounds_to_target"] = nullptr;
    if (compared.rounds_to_target) json["rounds_to_target"] = *compared.rounds_to_target;
    if (run.emulated_seconds) json["emulated_seconds_to_target"] = optional_json(compared.emulated_to_target);
  }
  if (comparison.baseline) {
    const ComparedRun& base = comparison.runs[*comparison.baseline];
    json["change"] = Json::object();
    if (!run.points.empty() && !base.run.points.empty()) {
      for (const auto& [name, value] : run.points.back().scores) {
        const auto other = base.run.points.back().scores.find(name);
        if (other == base.run.points.back().scores.end()) continue;
        json["change"][name] = optional_json(change_against(value, other->second));
      }
    }
  }
  json["curve"] = Json::array();
  for (const RunPoint& point : run.points) {
    json["curve"].push_back({{"round", point.round},
                             {"seconds", point.seconds},
                             {"bytes", point.bytes},
                             {"examples", point.examples},
                             {"scores", scores_json(point.scores)}});
    if (run.emulated_seconds) json["curve"].back()["emulated_seconds"] = point.emulated_seconds;
  }
  if (run.summary && !run.summary->deciles.empty()) {
    json["deciles"] = Json::array();
    for (const DecileSummary& decile : run.summary->deciles) {
      json["deciles"].push_back(
          {{"name", decile.name}, {"clients", decile.clients}, {"scores", scores_json(decile.scores)}});
    }
  }
  if (run.summary && !run.summary->spreads.empty()) {
    json["own_test"] = Json::array();
    for (const ClientSpread& spread : run.summary->spreads) {
      json["own_test"].push_back({{"model", spread.model},
                                  {"newcomers", spread.newcomers},
                                  {"clients", spread.clients},
                                  {"mean", optional_json(spread.mean)},
                                  {"deviation", optional_json(spread.deviation)},
                                  {"worst_tenth", optional_json(spread.worst_tenth)},
                                  {"best_tenth", optional_json(spread.best_tenth)},
                                  {"jain", optional_json(spread.jain)},
                                  {"gain", optional_json(spread.gain)},
                                  {"gaining", optional_json(spread.gaining)}});
    }
  }
  return json;
}

}  // namespace

std::optional<double> change_against(double value, double baseline) {
  const double change = (value - baseline) / std::abs(baseline);
  if (!std::isfinite(change)) return std::nullopt;
  return change;
}

Comparison compare_runs(const CompareOptions& options) {
  std::vector<fs::path> folders = options.runs;
  Comparison comparison;
  comparison.axis = run_axis_named(options.x);
  comparison.x = options.x;
  if (options.baseline) {
    const auto same = [&](const fs::path& folder) {
      return fs::weakly_canonical(folder / "") == fs::weakly_canonical(*options.baseline / "");
    };
    const auto found = std::find_if(folders.begin(), folders.end(), same);
    comparison.baseline = static_cast<std::size_t>(found == folders.end() ? 0 : found - folders.begin());
    if (found == folders.end()) folders.insert(folders.begin(), *options.baseline);
  }
  std::vector<RunRecord> runs = read_runs(folders);
  if (runs.empty()) throw ConfigError("name at least one run folder");
  comparison.metric = chosen_metric(runs, options.metric);
  comparison.higher_is_better = !name_means_lower(comparison.metric);
  comparison.target = options.target;
  for (const RunRecord& run : runs) {
    if (run.metric != comparison.metric) continue;
    comparison.higher_is_better = run.higher_is_better;
    if (!comparison.target) comparison.target = run.target;
  }
  if (comparison.axis == RunAxis::kEmulated) {
    double longest = 0;
    for (const RunRecord& run : runs) {
      if (!run.emulated_seconds) {
        throw ConfigError(
            fmt::format("{}: this run has no emulated time; give its configuration the key `emulation` "
                        "(docs/how-to/emulate_devices.md)",
                        run.folder.string()));
      }
      longest = std::max(longest, *run.emulated_seconds);
    }
    comparison.x = longest >= kLongInSeconds ? "emulated hours" : "emulated seconds";
  }
  for (RunRecord& run : runs) comparison.runs.push_back(measured(std::move(run), comparison));
  return comparison;
}

std::vector<Curve> curves_of(const Comparison& comparison) {
  std::vector<Curve> curves;
  for (const ComparedRun& compared : comparison.runs)
    curves.push_back(curve_of(compared.run, comparison.metric, comparison.axis));
  if (comparison.x == "emulated hours") {
    for (Curve& curve : curves) {
      for (auto& point : curve.points) point.first /= 3600;
    }
  }
  return curves;
}

std::string to_json(const Comparison& comparison) {
  Json json = {{"metric", comparison.metric}, {"higher_is_better", comparison.higher_is_better}};
  if (comparison.target) json["target"] = *comparison.target;
  if (comparison.baseline) json["baseline"] = comparison.runs[*comparison.baseline].run.label;
  json["runs"] = Json::array();
  for (const ComparedRun& compared : comparison.runs) json["runs"].push_back(run_json(compared, comparison));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_svg(const Comparison& comparison) {
  return svg_plot(curves_of(comparison), {.title = fmt::format("{} by {}", comparison.metric, comparison.x),
                                          .x_label = comparison.x,
                                          .y_label = comparison.metric,
                                          .target = comparison.target});
}

}  // namespace chorus::inline compare
