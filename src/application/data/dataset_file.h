#pragma once

#include <filesystem>
#include <optional>

#include "application/data/dataset.h"
#include "core/base/fingerprint.h"

namespace chorus {

/// A dataset as a file that is opened in a few milliseconds: its texts are mapped, not read (docs/formats.md, "Read
/// data"). What it was made from is the caller's business and goes into `key`.
///
///     DatasetFile::write(path, key, data);
///     if (std::optional<Dataset> data = DatasetFile::open(path, key)) use(*data);
class DatasetFile {
 public:
  /// Written atomically. AtomicFile's errors.
  static void write(const std::filesystem::path& path, const Fingerprint& key, const Dataset& data);
  /// Nothing when the file has another key or was written by another version. DataError when it is missing, cut short
  /// or changed in any byte (checksums), or when a place, number or end in it does not fit the others.
  static std::optional<Dataset> open(const std::filesystem::path& path, const Fingerprint& key);
};

}  // namespace chorus
