#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ports/tracker.h"
#include "infrastructure/tracking/run_lock.h"
#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline tracking {

/// The format version of run folders, raised on every incompatible change.
inline constexpr int kRunFormat = 2;

/// `run.json`: what is known at the start of a run. Contains nothing about the machine or the user.
struct RunInfo {
  std::string name{};
  std::string command{};         ///< as typed
  std::string chorus_version{};  ///< of the program that started it
  std::string torch_version{};
  std::uint64_t seed = 0;
  std::string started{};  ///< UTC, "2026-01-31T08:30:00Z"; empty: now
  /// From the run folder to the folder that the configuration's paths start from: "../.."; empty when the run is not
  /// below it.
  std::string directory{};
};

/// The folder that the paths of a run's configuration start from; the current one where run.json does not know.
std::filesystem::path working_directory_of(const std::filesystem::path& run);

/// Where to create a run folder: at `folder`, or in `parent` as `name`, or as the first free `experiment-001`,
/// `experiment-002`, ... in `parent`.
struct NewRun {
  std::filesystem::path folder{};
  std::filesystem::path parent = "runs";
  std::string name{};
  std::string experiment = "run";
  std::string config_yaml{};  ///< resolved: config_to_yaml(...)
  RunInfo info{};             ///< its name is set from the folder
};

/// The folder of one run (docs/reference/formats.md, "Run folders"), locked by this process while the object lives. It
/// is created atomically with `config.yaml` and `run.json`, and nothing is ever overwritten by another run. All files
/// except the event logs are replaced atomically; a full disk is a WorldError and leaves the old files.
///
///     RunFolder run = RunFolder::create({.experiment = "fedavg", .config_yaml = yaml, .info = info});
///     auto tracker = run.tracker(0);
///     CheckpointStore checkpoints(run.checkpoints(), 2);
///     ...
///     run.write_summary(summary);
///
/// Resuming: open, find the last checkpoint, then `tracker(checkpoint.round)`.
class RunFolder {
 public:
  /// ConfigError when the folder exists and is not empty, or a name is not a plain name.
  static RunFolder create(const NewRun& run);
  /// DataError when this is not a run folder or has another format version; WorldError when another process holds it.
  static RunFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  const RunInfo& info() const { return info_; }
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }  ///< for CheckpointStore
  std::filesystem::path clients() const { return path_ / "clients"; }          ///< for ClientStateStore
  std::filesystem::path model() const { return path_ / "model"; }              ///< written by the caller

  /// Writes `metrics.jsonl`, and the files of the named trackers (none given: all of this build). First drops every
  /// event after `round` and a partial line of a killed process: 0 for a new run, the checkpoint's round when resuming.
  /// Removes an old `summary.json`, because the run is no longer finished.
  std::unique_ptr<Tracker> tracker(std::int64_t round,
                                   const std::optional<std::vector<std::string>>& names = std::nullopt);

  void write_summary(const RunSummary& summary) const;

 private:
  RunFolder(std::filesystem::path path, RunInfo info, RunLock lock);

  std::filesystem::path path_;
  RunInfo info_;
  RunLock lock_;
};

/// Reads `run.json` without locking, also of a running run. Errors as for RunFolder::open.
RunInfo read_run_info(const std::filesystem::path& folder);

}  // namespace chorus::inline tracking
