#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/ports/tracker.h"
#include "infrastructure/tracking/report/columns.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline report {

/// How a run is doing, besides the summary's own words.
inline constexpr const char* kRunning = "running";  ///< a process works on it
inline constexpr const char* kStopped = "stopped";  ///< none does, and it is not finished

/// A run folder as its page shows it. Reads only what was added since the last time, so that a dashboard can follow a
/// long run.
///
///     RunView view("runs/fedavg-001");
///     if (view.refresh()) send(view.json(2000));
class RunView {
 public:
  /// DataError when this is not a run folder. `id` names it in the page; empty: the folder.
  explicit RunView(std::filesystem::path folder, std::string id = "");

  /// Reads what is new; true when something the page shows has changed. A damaged line ends the reading there:
  /// `problem` says where. A file that became shorter (the run was resumed from an earlier round) is read again.
  bool refresh();

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& id() const { return id_; }
  const std::string& problem() const { return problem_; }
  std::string name() const { return info_.name; }
  /// Made by `chorus serve`: its clients are other processes.
  bool served() const { return info_.command.starts_with("chorus serve"); }
  std::string status() const;

  /// A JSON object (web/src/data.ts, Run) with at most `points` points per curve.
  std::string json(std::size_t points) const;
  void set_label(std::string label) { label_ = std::move(label); }

 private:
  struct Failures {
    std::int64_t count = 0, first = 0, last = 0;
  };

  std::string momentary(const char* name) const;
  void read_events();
  void forget_events();
  void add(const Event& event);
  void add_evaluation(const Event& event);
  void add_failure(const Event& event);

  std::filesystem::path folder_;
  std::string id_, label_, problem_;
  RunInfo info_;
  std::optional<RunSummary> summary_;
  std::optional<std::int64_t> process_;
  bool paused_ = false;
  std::uint64_t offset_ = 0;       // of the events that have been read
  std::uint64_t file_number_ = 0;  // of metrics.jsonl: another one is another file
  std::filesystem::file_time_type summary_time_{};
  std::string progress_, server_;  // as in progress.json and server.json

  Columns rounds_, evaluations_;
  std::string algorithm_, metric_, split_;
  bool higher_ = true;
  std::optional<double> target_;
  std::int64_t last_round_ = 0, planned_ = 0;
  double clients_ = 0, parameters_ = 0, trained_ = 0;
  std::map<std::string, double> sums_;  // over the rounds: seconds, bytes, examples, emulated_seconds, client_joules
  std::map<std::string, Failures> failures_;
  std::int64_t failed_ = 0;
  std::optional<Event> client_scores_, privacy_;
};

}  // namespace chorus::inline report
