#pragma once

#include <filesystem>
#include <optional>

#include "application/data/dataset.h"
#include "core/base/fingerprint.h"

namespace chorus::inline data {

/// A dataset file that opens in a few milliseconds: its texts are mapped, not read (docs/reference/formats.md, "Dataset
/// cache"). The caller encodes the origin of the data in `key`.
///
///     DatasetFile::write(path, key, data);
///     if (std::optional<Dataset> data = DatasetFile::open(path, key)) use(*data);
class DatasetFile {
 public:
  /// Writes atomically; errors as for AtomicFile.
  static void write(const std::filesystem::path& path, const Fingerprint& key, const Dataset& data);
  /// nullopt when the file has another key or version. DataError when it is missing, truncated or changed (checksums),
  /// or when an offset, id or end in it is invalid.
  static std::optional<Dataset> open(const std::filesystem::path& path, const Fingerprint& key);
};

}  // namespace chorus::inline data
