#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/ports/tracker.h"

namespace chorus::inline tracking_tensorboard {

/// Scalar curves for TensorBoard, in `RUN/tensorboard/events.out.tfevents.TIME.chorus`: every finite number of the
/// events of kind `round` (tag "round/loss") and `evaluation` (tag "test/accuracy", by the event's split), with the
/// round as step. Format: docs/reference/formats.md. A new tracker replaces the files of the previous one: RunFolder
/// replays the kept events of a resumed run.
///
///     tensorboard --logdir runs
class TensorBoardTracker final : public Tracker {
 public:
  explicit TensorBoardTracker(const std::filesystem::path& run_folder);
  TensorBoardTracker(const TensorBoardTracker&) = delete;
  TensorBoardTracker& operator=(const TensorBoardTracker&) = delete;
  ~TensorBoardTracker() override;

  void record(const Event& event) override;

 private:
  void append(const std::string& message);

  std::filesystem::path folder_, path_;
  int descriptor_ = -1;  // opened by the first event, whose time is in the file's name
};

}  // namespace chorus::inline tracking_tensorboard
