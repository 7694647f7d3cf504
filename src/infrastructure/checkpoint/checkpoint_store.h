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

/// The whole federation after a round: the model and the server optimizer (tensors), names and lists (texts, UTF-8),
/// and counters (numbers, kept bit for bit; store whole numbers beyond 2^53 as texts). Random streams are keyed by the
/// round, so only the seed and the round are kept of them.
struct Checkpoint {
  std::int64_t round = 0;
  std::int64_t phase = 0;
  std::map<std::string, at::Tensor> tensors{};
  std::map<std::string, std::string> texts{};
  std::map<std::string, double> numbers{};
};

/// Checkpoints in `folder`/round_000012/, each written under a temporary name, synced and renamed: after a kill or a
/// power cut a checkpoint is either complete or absent. Loading checks sizes and checksums. One writer at a time
/// (RunFolder's lock); not thread-safe.
///
///     CheckpointStore store(run.checkpoints(), 2);
///     store.save({.round = 12, .tensors = {{"model", params}}});
///     if (auto checkpoint = store.latest()) ...
class CheckpointStore {
 public:
  /// Creates the folder and removes partial checkpoints of a killed process.
  explicit CheckpointStore(std::filesystem::path folder, std::size_t keep = 2);

  /// Then removes all but the last `keep`. A checkpoint of the same round is replaced atomically. Tensors may be on any
  /// device and strided. WorldError when the disk is full: earlier checkpoints stay.
  void save(const Checkpoint& checkpoint);

  /// Throws DataError when external files that a checkpoint needs are damaged.
  using Verify = std::function<void(const Checkpoint&)>;

  /// The newest intact checkpoint that `verify` accepts, tensors on the CPU; damaged ones are skipped with a warning.
  /// Nothing when there is none; DataError when all are damaged, or the newest has another format version.
  std::optional<Checkpoint> latest(const Verify& verify = {}) const;

  /// Renames the checkpoints after `round`, which `latest` skipped, to damaged_000012.
  void discard_after(std::int64_t round);

  std::vector<std::int64_t> rounds() const;  ///< of the existing checkpoints, ascending
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path path_of(std::int64_t round) const;

  std::filesystem::path folder_;
  std::size_t keep_;
};

}  // namespace chorus::inline checkpoint
