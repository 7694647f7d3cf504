#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/experiment/run_state.h"
#include "apps/experiment/server_half.h"
#include "core/console/progress.h"
#include "core/ports/tracker.h"
#include "infrastructure/tracking/run_folder.h"
#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline experiment {

/// What a run tells about itself: its events, the progress bar, and the summary at the end.
class RunJournal {
 public:
  /// Both are borrowed.
  RunJournal(RunFolder& folder, const ServerHalf& server) : folder_(folder), server_(server) {}

  /// Starts a run of so many rounds and clients, or goes on after `state.loop.round`.
  void begin(const RunState& state, std::int64_t rounds, std::size_t clients);
  Tracker& tracker() { return *tracker_; }
  /// While clients answer: on the progress line, and in progress.json for who looks from outside.
  void show_replies(std::size_t done, std::size_t asked);
  /// After every round.
  void show(const RoundLoopState& loop, const RoundResult& result);
  /// The rounds are over.
  void end_rounds();
  /// Writes the last event and the summary. `saving_seconds`: of the models at the end.
  RunSummary finish(const RunState& state, RoundLoopEnd end, double saving_seconds);

 private:
  void record_start(std::int64_t rounds, std::size_t clients);

  RunFolder& folder_;
  const ServerHalf& server_;
  std::unique_ptr<Tracker> tracker_;
  std::optional<Progress> progress_;
  std::string note_;                                 // about the newest round
  std::chrono::steady_clock::time_point written_{};  // progress.json
};

}  // namespace chorus::inline experiment
