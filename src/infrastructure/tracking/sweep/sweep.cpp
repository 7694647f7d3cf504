#include "infrastructure/tracking/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/console/terminal.h"
#include "core/files/files.h"
#include "infrastructure/tracking/run_lock.h"
#include "infrastructure/tracking/sweep/child_program.h"

namespace chorus::inline sweep {
namespace {

namespace fs = std::filesystem;

void prepare_folder(const SweepOptions& options, const std::string& config) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) throw DataError(fmt::format("{}: cannot be created: {}", options.folder.string(), error.message()));
  const fs::path copy = options.folder / "config.yaml";
  if (fs::exists(options.folder / "run.json"))
    throw ConfigError(fmt::format("{}: is a run, not a sweep; use another --name", options.folder.string()));
  if (!fs::exists(copy)) {
    if (!fs::is_empty(options.folder))
      throw ConfigError(fmt::format("{}: exists and is not a sweep; use another --name", options.folder.string()));
    write_file(copy, config);
  } else if (read_file(copy, std::uint64_t{1} << 20) != config) {
    throw ConfigError(fmt::format(
        "{}: is a sweep of another configuration than the current {}; use another --name, or remove the folder",
        options.folder.string(), options.config.string()));
  }
}

bool has_checkpoint(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints", error)) {
    if (entry.path().filename().string().starts_with("round_")) return true;
  }
  return false;
}

std::optional<RunSummary> finished_summary(const fs::path& folder) {
  std::optional<RunSummary> summary = read_run_summary(folder);
  if (summary && summary->status == "interrupted") summary.reset();
  return summary;
}

std::vector<std::string> settings_of(const SweepOptions& options, const SweepPoint& point) {
  std::vector<std::string> settings = options.overrides;
  for (const auto& [key, value] : point) {
    const auto found = std::find_if(options.cases.begin(), options.cases.end(),
                                    [&](const SweepCase& one) { return key == kCaseKey && one.name == value; });
    if (found == options.cases.end()) {
      settings.push_back(key + "=" + value);
    } else {
      settings.insert(settings.end(), found->settings.begin(), found->settings.end());
    }
  }
  return settings;
}

std::vector<std::string> arguments_of(const SweepOptions& options, const SweepPoint& point, const SweepRun& run) {
  if (fs::exists(run.folder / "run.json") && has_checkpoint(run.folder)) return {"resume", run.folder.string()};
  std::vector<std::string> arguments = {"run", options.config.string()};
  const std::vector<std::string> settings = settings_of(options, point);
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  arguments.push_back(fmt::format("seed={}", run.seed));
  arguments.insert(arguments.end(), {"--run-folder", run.folder.string()});
  return arguments;
}

/// The program's message, which is the last line of its output.
std::string failure_of(const SweepRun& run, int status) {
  std::string text;
  try {
    text = read_file(run.log, std::uint64_t{1} << 30);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the status alone has to suffice
  }
  const std::size_t end = text.find_last_not_of("\r\n ");
  text.resize(end == std::string::npos ? 0 : end + 1);
  text = text.substr(text.find_last_of("\r\n") + 1);
  const std::string why = status == 127 && text.empty() ? "the program cannot be started" : printable(text);
  return fmt::format("exit status {}{}{}", status, why.empty() ? "" : ": ", shortened(why, 300));
}

void take_result(Sweep& sweep, SweepRun& run, int status) {
  try {
    if (status == 0) run.summary = finished_summary(run.folder);
    if (!run.summary) run.failure = status == 0 ? "it ended without a summary" : failure_of(run, status);
  } catch (const DataError& error) {
    run.failure = error.what();
  }
  if (run.summary && sweep.metric.empty()) {
    sweep.metric = run.summary->metric;
    sweep.higher_is_better = run.summary->higher_is_better;
  }
}

void summarise(Sweep& sweep) {
  sweep.best.assign(sweep.points.size(), {});
  sweep.last.assign(sweep.points.size(), {});
  for (std::size_t point = 0; point < sweep.points.size(); ++point) {
    std::vector<double> best, last;
    for (const SweepRun& run : sweep.runs) {
      if (run.point != point || !run.summary) continue;
      if (run.summary->best.contains(sweep.metric)) best.push_back(run.summary->best.at(sweep.metric));
      if (run.summary->last.contains(sweep.metric)) last.push_back(run.summary->last.at(sweep.metric));
    }
    sweep.best[point] = mean_deviation(best);
    sweep.last[point] = mean_deviation(last);
  }
  sweep.order.resize(sweep.points.size());
  for (std::size_t point = 0; point < sweep.points.size(); ++point) sweep.order[point] = point;
  std::stable_sort(sweep.order.begin(), sweep.order.end(), [&](std::size_t a, std::size_t b) {
    const MeanDeviation &left = sweep.best[a], &right = sweep.best[b];
    if ((left.count > 0) != (right.count > 0)) return left.count > 0;
    return sweep.higher_is_better ? left.mean > right.mean : left.mean < right.mean;
  });
}

/// Runs what is not finished, `jobs` concurrently.
class Runner {
 public:
  Runner(const SweepOptions& options, Sweep& sweep, const std::function<void(const Sweep&, const SweepRun&)>& progress)
      : options_(options), sweep_(sweep), progress_(progress), children_(options.program, threads(options.jobs)) {}

  void run_all() {
    for (std::size_t i = 0; i < sweep_.runs.size() && !sweep_.interrupted; ++i) {
      SweepRun& run = sweep_.runs[i];
      if (skip(run)) continue;
      while (children_.running() >= std::max<std::size_t>(options_.jobs, 1)) collect();
      if (sweep_.interrupted || ChildPrograms::interrupted()) break;
      started_[children_.start(arguments_of(options_, sweep_.points[run.point], run), run.log)] = i;
    }
    while (children_.running() > 0) collect();
    sweep_.interrupted = sweep_.interrupted || ChildPrograms::interrupted();
  }

 private:
  static std::size_t threads(std::size_t jobs) {
    return jobs > 1 ? std::max<std::size_t>(1, std::thread::hardware_concurrency() / jobs) : 0;
  }

  /// Whether nothing needs to start: finished before, or blocked.
  bool skip(SweepRun& run) {
    take_result(sweep_, run, 0);
    run.skipped = run.summary.has_value();
    run.failure.clear();
    if (!run.skipped && fs::exists(run.folder)) {
      if (!fs::exists(run.folder / "run.json") && !fs::is_empty(run.folder)) {
        run.failure = fmt::format("{}: exists and is not a run; remove it", run.folder.string());
      } else if (!has_checkpoint(run.folder)) {
        std::error_code error;
        fs::remove_all(run.folder, error);
      }
    }
    if (!run.skipped && run.failure.empty()) return false;
    ended(run);
    return true;
  }

  void collect() {
    const auto [child, status] = children_.wait();
    SweepRun& run = sweep_.runs[started_.at(child)];
    take_result(sweep_, run, status);
    if (status == static_cast<int>(ExitCode::kInterrupted)) {
      sweep_.interrupted = true;
      run.failure.clear();
      return;
    }
    ended(run);
  }

  void ended(const SweepRun& run) {
    summarise(sweep_);
    write_file(options_.folder / "sweep.json", to_json(sweep_));
    if (progress_) progress_(sweep_, run);
  }

  const SweepOptions& options_;
  Sweep& sweep_;
  const std::function<void(const Sweep&, const SweepRun&)>& progress_;
  ChildPrograms children_;
  std::map<pid_t, std::size_t> started_;
};

}  // namespace

Sweep run_sweep(const SweepOptions& options, const std::function<void(const Sweep&, const SweepRun&)>& progress) {
  Sweep sweep;
  std::vector<SweepKey> keys = options.keys;
  if (!options.cases.empty()) {
    SweepKey cases{kCaseKey, {}};
    for (const SweepCase& one : options.cases) cases.values.push_back(one.name);
    keys.insert(keys.begin(), std::move(cases));
  }
  sweep.points = sweep_points(keys);
  if (options.seeds == 0) throw ConfigError("--seeds must be at least 1");
  for (const SweepKey& key : options.keys) {
    if (key.key == "seed") throw ConfigError("seed: is set by --seeds and --first-seed; do not sweep over it");
  }
  const std::string config = read_file(options.config, std::uint64_t{1} << 20);
  for (const SweepPoint& point : sweep.points) {
    if (options.check) options.check(settings_of(options, point));
  }
  prepare_folder(options, config);
  const RunLock lock(options.folder, fmt::format("{}: another process is working on this sweep; wait until it has "
                                                 "finished, or stop it",
                                                 options.folder.string()));
  for (std::size_t point = 0; point < sweep.points.size(); ++point) {
    for (std::uint64_t i = 0; i < options.seeds; ++i) {
      const std::uint64_t seed = options.first_seed + i;
      const std::string name = point_folder(sweep.points[point], seed);
      sweep.runs.push_back(
          {.point = point, .seed = seed, .folder = options.folder / name, .log = options.folder / (name + ".log")});
    }
  }
  summarise(sweep);
  Runner(options, sweep, progress).run_all();
  summarise(sweep);
  write_file(options.folder / "sweep.json", to_json(sweep));
  return sweep;
}

}  // namespace chorus::inline sweep
