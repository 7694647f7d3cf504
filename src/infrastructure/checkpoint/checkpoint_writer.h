#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>

#include "infrastructure/checkpoint/checkpoint_store.h"
#include "infrastructure/checkpoint/client_state_store.h"

namespace chorus::inline checkpoint {

/// A checkpoint that is on disk.
struct WrittenCheckpoint {
  std::int64_t round = 0;
  double waited = 0;   ///< seconds the caller waited: for the snapshot, and in `wait`
  double writing = 0;  ///< seconds of the background thread
};

/// Writes checkpoints in the background during the next round. `save` copies what may change (tensors on their device,
/// client states not at all) and returns; a background thread writes and syncs. One checkpoint is written at a time.
/// Until it is complete, a killed run resumes from the previous one.
///
///     CheckpointWriter writer(checkpoints, clients);
///     ...                              // a round
///     if (due) {
///       report(writer.wait());         // the previous one
///       writer.save(checkpoint);
///     }
///     ...
///     report(writer.wait());           // at the end, and before an interrupt is reported
///
/// A failure (WorldError: the disk is full) is thrown once, by the next `poll` or `wait`. The destructor waits and logs
/// an unreported failure. While a checkpoint is written, do not use the CheckpointStore; clients' states may be loaded
/// and stored. Not thread-safe.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointStore& checkpoints, ClientStateStore& clients);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// The previous checkpoint must have been reported. Freezes the clients' states of this round.
  void save(const Checkpoint& checkpoint);
  /// The last saved checkpoint, once it is on disk; each is reported once.
  std::optional<WrittenCheckpoint> poll();
  /// The same, but waits for it.
  std::optional<WrittenCheckpoint> wait();

 private:
  CheckpointStore& checkpoints_;
  ClientStateStore& clients_;
  WrittenCheckpoint last_;
  std::future<double> writing_;  // valid: not yet reported
};

}  // namespace chorus::inline checkpoint
