#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "application/tasks/task.h"

namespace chorus::inline tasks {

/// How a split is encoded and where the result is kept.
struct EncodeConfig {
  /// The folder of the cache; "auto": $XDG_CACHE_HOME/chorus, else ~/.cache/chorus; "none": only in memory.
  std::string cache = "auto";
  std::int64_t threads = 0;  ///< 0: as many as there are cores

  void describe(ConfigVisitor& visitor);
};

struct EncodedSplit {
  std::shared_ptr<const EncodedDataset> data;
  bool from_cache = false;     ///< nothing had to be tokenized
  std::filesystem::path file;  ///< of the cache; empty when the data is in memory only
};

/// Tokenizes a split once and remembers it in a file that is keyed by the content of the data, the split, the
/// tokenizer, the task with its options and labels, and is memory-mapped from then on. A file that is damaged, of
/// another version or not readable is made again, with a warning; when it cannot be written (full disk, no permission)
/// the data stays in memory, with a warning. ConfigError when the task cannot read such data.
///
///     const EncodedSplit train = encode_split(*task, data, Split::kTrain);
EncodedSplit encode_split(const Task& task, const Dataset& data, Split split, const EncodeConfig& config = {});

/// The key of that file.
Fingerprint encoding_fingerprint(const Task& task, const Dataset& data, Split split);

}  // namespace chorus::inline tasks
