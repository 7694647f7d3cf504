#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "application/tasks/task.h"

namespace chorus::inline tasks {

/// How a split is encoded and where the result is stored.
struct EncodeConfig {
  /// The cache folder; "auto": $XDG_CACHE_HOME/chorus, else ~/.cache/chorus; "none": only in memory.
  std::string cache = "auto";
  std::int64_t threads = 0;  ///< 0: one per core

  void describe(ConfigVisitor& visitor);
};

struct EncodedSplit {
  std::shared_ptr<const EncodedDataset> data;
  bool from_cache = false;     ///< nothing had to be tokenized
  std::filesystem::path file;  ///< of the cache; empty if the data is only in memory
};

/// Tokenizes a split once and caches it in a file, which is memory-mapped from then on. The key covers the content of
/// the data, the split, the tokenizer, and the task with its options and labels. A damaged, outdated or unreadable file
/// is written again, with a warning; if it cannot be written (full disk, no permission), the data stays in memory, with
/// a warning. ConfigError if the task cannot read such data.
///
///     const EncodedSplit train = encode_split(*task, data, Split::kTrain);
EncodedSplit encode_split(const Task& task, const Dataset& data, Split split, const EncodeConfig& config = {});

/// The key of that file.
Fingerprint encoding_fingerprint(const Task& task, const Dataset& data, Split split);

}  // namespace chorus::inline tasks
