#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace chorus::inline checkpoint {

/// The whole federation after a round: the model and the server optimiser (tensors), names and lists (texts, UTF-8),
/// and counters (numbers, kept bit for bit; whole numbers beyond 2^53 belong into texts). Random streams are keyed by
/// the round, so the seed and the round are all there is to keep of them.
struct Checkpoint {
  std::int64_t round = 0;
  std::int64_t phase = 0;
  std::map<std::string, at::Tensor> tensors{};
  std::map<std::string, std::string> texts{};
  std::map<std::string, double> numbers{};
};

/// Checkpoints in `folder`/round_000012/, each written under another name, synced and renamed into place: after a kill
/// or a power cut a checkpoint is there whole or not at all. Sizes and checksums are checked on loading. One writer at
/// a time (RunFolder's lock); not thread-safe.
///
///     CheckpointStore store(run.checkpoints(), 2);
///     store.save({.round = 12, .tensors = {{"model", params}}});
///     if (auto checkpoint = store.latest()) ...
class CheckpointStore {
 public:
  /// Makes the folder, and removes what a killed process left half written.
  explicit CheckpointStore(std::filesystem::path folder, std::size_t keep = 2);

  /// Then removes all but the last `keep`. A checkpoint of the same round is replaced in one step. Tensors may be on
  /// any device and strided. WorldError when the disk is full: the checkpoints from before stay.
  void save(const Checkpoint& checkpoint);

  /// Throws DataError when files that a checkpoint needs, and that lie elsewhere, are damaged.
  using Verify = std::function<void(const Checkpoint&)>;

  /// The newest whole one that `verify` accepts, tensors on the CPU; a damaged one is passed over with a warning.
  /// Nothing when there is none; DataError when all are damaged, or the newest is of another format version.
  std::optional<Checkpoint> latest(const Verify& verify = {}) const;

  /// Sets the checkpoints after `round`, those `latest` passed over, aside as damaged_000012.
  void discard_after(std::int64_t round);

  std::vector<std::int64_t> rounds() const;  ///< of the checkpoints that are there, rising
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path path_of(std::int64_t round) const;

  std::filesystem::path folder_;
  std::size_t keep_;
};

}  // namespace chorus::inline checkpoint
