#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "application/trainer/client_pool.h"
#include "apps/experiment/run_state.h"
#include "apps/experiment/server_half.h"
#include "core/ports/tracker.h"
#include "infrastructure/checkpoint/checkpoint_store.h"
#include "infrastructure/checkpoint/checkpoint_writer.h"
#include "infrastructure/checkpoint/client_state_store.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline experiment {

/// The state of a run and its checkpoints: where it starts or resumes, and when it is saved.
///
///     RunCheckpoints checkpoints(folder, config.checkpoint, config.federation);
///     checkpoints.begin(server, data.fingerprint().hex());
///     ...                                                    // after every round:
///     checkpoints.save(memory, last, tracker);
///     ...                                                    // at the end:
///     checkpoints.wait(tracker);
class RunCheckpoints {
 public:
  RunCheckpoints(const RunFolder& folder, const ExperimentConfig& config);

  /// Loads the newest checkpoint, or starts from the initial network. `data`: fingerprint of the training data.
  /// DataError when the checkpoint is for other data or another network.
  void begin(const ServerHalf& server, const std::string& data);

  RunState& state() { return state_; }
  /// Where the clients of this process keep their states.
  StateShelf shelf();
  /// The newest round from which the run can be resumed; 0: none. Call after `wait`.
  std::int64_t newest_round() const;

  /// Saves when a checkpoint is due (`checkpoint.every`) or `last`: takes a snapshot, which is written while the run
  /// continues. Throws when the previous one could not be written.
  void save(const ServerMemory& memory, bool last, Tracker& tracker);
  /// Waits until the last checkpoint is on disk.
  void wait(Tracker& tracker);

 private:
  void report(const std::optional<WrittenCheckpoint>& written, Tracker& tracker);

  std::filesystem::path folder_;
  std::int64_t every_;
  CheckpointStore checkpoints_;
  ClientStateStore clients_;
  RunState state_;
  std::chrono::steady_clock::time_point saved_at_;
  CheckpointWriter writer_{checkpoints_, clients_};
};

}  // namespace chorus::inline experiment
