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
  double waited = 0;   ///< seconds of the caller: for the snapshot, and in `wait` until it was written
  double writing = 0;  ///< seconds of the background thread
};

/// Writes checkpoints beside the next round. `save` copies what may change (tensors where they lie, client states not
/// at all) and returns; a background thread writes and syncs it. One checkpoint is written at a time, and until it is
/// complete the one before it is what a killed run resumes from.
///
///     CheckpointWriter writer(checkpoints, clients);
///     ...                              // a round
///     if (due) {
///       report(writer.wait());         // the one before
///       writer.save(checkpoint);
///     }
///     ...
///     report(writer.wait());           // at the end, and before an interrupt is reported
///
/// A failure (WorldError: the disk is full) is thrown once, by the next `poll` or `wait`. The destructor waits, and
/// logs a failure that nobody asked for. While a checkpoint is written, nobody else may use the CheckpointStore;
/// clients' states may be loaded and stored. Not thread-safe.
class CheckpointWriter {
 public:
  CheckpointWriter(CheckpointStore& checkpoints, ClientStateStore& clients);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// The one before must have been reported. Freezes the clients' states of this round.
  void save(const Checkpoint& checkpoint);
  /// The checkpoint that was saved last, once it is on disk; each is reported once.
  std::optional<WrittenCheckpoint> poll();
  /// The same, and waits for it.
  std::optional<WrittenCheckpoint> wait();

 private:
  CheckpointStore& checkpoints_;
  ClientStateStore& clients_;
  WrittenCheckpoint last_;
  std::future<double> writing_;  // valid: not yet reported
};

}  // namespace chorus::inline checkpoint
