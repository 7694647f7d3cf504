#include "infrastructure/tracking/compare/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "infrastructure/tracking/metrics_log.h"

namespace chorus::inline compare {
namespace {

namespace fs = std::filesystem;

double number_of(const Event& event, const std::string& name) {
  const auto found = event.numbers.find(name);
  return found == event.numbers.end() ? 0 : found->second;
}

std::string text_of(const Event& event, const std::string& name) {
  const auto found = event.texts.find(name);
  return found == event.texts.end() ? "" : found->second;
}

/// The split whose scores count: "test", or the first that was evaluated.
std::string main_split(const std::vector<Event>& events) {
  std::string first;
  for (const Event& event : events) {
    if (event.kind != "evaluation") continue;
    const std::string split = text_of(event, "split");
    if (split == "test") return split;
    if (first.empty()) first = split;
  }
  return first;
}

void add_evaluation(RunRecord& run, const Event& event) {
  static const std::set<std::string> kNoScores = {"examples",        "seconds",       "emulated_seconds",
                                                  "emulated_joules", "client_joules", "client_bytes"};
  RunPoint point{event.round, run.seconds, run.bytes, run.examples, run.emulated_seconds.value_or(0), {}};
  for (const auto& [name, value] : event.numbers) {
    if (!kNoScores.contains(name)) point.scores[name] = value;
  }
  run.points.push_back(std::move(point));
}

}  // namespace

std::vector<std::string> RunRecord::metrics() const {
  std::set<std::string> names;
  for (const RunPoint& point : points) {
    for (const auto& [name, value] : point.scores) names.insert(name);
  }
  return {names.begin(), names.end()};
}

RunRecord read_run(const fs::path& folder) {
  RunRecord run;
  run.info = read_run_info(folder);
  run.folder = folder;
  run.label = run.info.name;
  run.summary = read_run_summary(folder);
  const std::vector<Event> events = read_events(folder / "metrics.jsonl");
  const std::string split = main_split(events);
  for (const Event& event : events) {
    if (event.kind == "run_started") {
      run.algorithm = text_of(event, "algorithm");
      run.metric = text_of(event, "metric");
      run.higher_is_better = text_of(event, "goal") != "min";
      run.planned_rounds = static_cast<std::int64_t>(number_of(event, "rounds"));
      if (event.numbers.contains("target")) run.target = number_of(event, "target");
    } else if (event.kind == "round") {
      run.rounds = std::max(run.rounds, event.round);
      run.seconds += number_of(event, "seconds");
      run.bytes += number_of(event, "bytes_up") + number_of(event, "bytes_down");
      run.examples += number_of(event, "examples");
      if (event.numbers.contains("emulated_seconds")) {
        run.emulated_seconds = run.emulated_seconds.value_or(0) + number_of(event, "emulated_seconds");
      }
    } else if (event.kind == "evaluation" && text_of(event, "split") == split) {
      add_evaluation(run, event);
    }
  }
  if (run.summary) {
    run.algorithm = run.summary->algorithm;
    run.metric = run.summary->metric;
    run.higher_is_better = run.summary->higher_is_better;
    run.target = run.summary->target;
    run.rounds = run.summary->rounds;
    run.seconds = run.summary->seconds;
    run.bytes = run.summary->bytes_up + run.summary->bytes_down;
    run.examples = run.summary->examples;
  }
  return run;
}

std::vector<RunRecord> read_runs(std::span<const fs::path> folders) {
  std::vector<RunRecord> runs;
  std::set<fs::path> seen;
  std::multiset<std::string> labels;
  for (const fs::path& folder : folders) {
    runs.push_back(read_run(folder));
    if (!seen.insert(fs::weakly_canonical(folder)).second)
      throw ConfigError(fmt::format("{}: this run is named twice; name it once", folder.string()));
    labels.insert(runs.back().label);
  }
  for (RunRecord& run : runs) {
    if (labels.count(run.label) > 1) run.label = run.folder.lexically_normal().string();
  }
  return runs;
}

RunAxis run_axis_named(const std::string& name) {
  if (name == "round") return RunAxis::kRound;
  if (name == "seconds") return RunAxis::kSeconds;
  if (name == "bytes") return RunAxis::kBytes;
  if (name == "examples") return RunAxis::kExamples;
  if (name == "emulated") return RunAxis::kEmulated;
  throw ConfigError(fmt::format("unknown axis '{}'; use round, seconds, bytes, examples or emulated", name));
}

Curve curve_of(const RunRecord& run, const std::string& metric, RunAxis axis) {
  Curve curve{run.label, {}};
  for (const RunPoint& point : run.points) {
    const auto score = point.scores.find(metric);
    if (score == point.scores.end()) continue;
    const double x = axis == RunAxis::kRound      ? static_cast<double>(point.round)
                     : axis == RunAxis::kSeconds  ? point.seconds
                     : axis == RunAxis::kBytes    ? point.bytes
                     : axis == RunAxis::kEmulated ? point.emulated_seconds
                                                  : point.examples;
    curve.points.emplace_back(x, score->second);
  }
  return curve;
}

}  // namespace chorus::inline compare
