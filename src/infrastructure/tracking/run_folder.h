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

namespace chorus {

/// What a run folder looks like; raised when an older program could not go on with a newer folder or the other way.
inline constexpr int kRunFormat = 2;

/// `run.json`: what is known when a run starts. Says nothing about the machine or the user.
struct RunInfo {
  std::string name{};
  std::string command{};         ///< as typed
  std::string chorus_version{};  ///< of the program that started it
  std::string torch_version{};
  std::uint64_t seed = 0;
  std::string started{};  ///< UTC, "2026-01-31T08:30:00Z"; empty: now
};

/// How to make a run folder: at `folder` exactly, or in `parent` as `name`, or as the first free `experiment-001`,
/// `experiment-002`, ... in `parent`.
struct NewRun {
  std::filesystem::path folder{};
  std::filesystem::path parent = "runs";
  std::string name{};
  std::string experiment = "run";
  std::string config_yaml{};  ///< resolved: config_to_yaml(...)
  RunInfo info{};             ///< its name is set from the folder
};

/// One run's folder (docs/formats.md, "Run folders"), locked for this process as long as the object lives. It appears
/// in one step, with `config.yaml` and `run.json` in it, and nothing that exists is ever overwritten. All files but the
/// event logs are replaced atomically; a full disk is a WorldError and leaves what was there.
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
  /// ConfigError when the folder exists and is not empty, or a name is no plain name.
  static RunFolder create(const NewRun& run);
  /// DataError when this is no run folder or one of another format version; WorldError when another process has it.
  static RunFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  const RunInfo& info() const { return info_; }
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }  ///< for CheckpointStore
  std::filesystem::path clients() const { return path_ / "clients"; }          ///< for ClientStateStore
  std::filesystem::path model() const { return path_ / "model"; }              ///< the caller writes it

  /// Writes `metrics.jsonl`, and what the named trackers write (nothing given: all that this build has). Forgets every
  /// event after `round` first, and a half line that a killed process left: 0 for a new run, the checkpoint's round
  /// when resuming. An old `summary.json` goes too: the run is not finished any more.
  std::unique_ptr<Tracker> tracker(std::int64_t round,
                                   const std::optional<std::vector<std::string>>& names = std::nullopt);

  void write_summary(const RunSummary& summary) const;

 private:
  RunFolder(std::filesystem::path path, RunInfo info, RunLock lock);

  std::filesystem::path path_;
  RunInfo info_;
  RunLock lock_;
};

/// Reads `run.json` without locking, also of a run that is going on. Errors: as RunFolder::open.
RunInfo read_run_info(const std::filesystem::path& folder);

}  // namespace chorus
