#pragma once

#include <filesystem>
#include <memory>

#include "application/tasks/encoded_dataset.h"
#include "core/base/fingerprint.h"

namespace chorus::inline tasks {

/// Encoded data as a file: a header that lists the columns, then the columns (docs/reference/formats.md, "Cache of
/// tokenized examples"). Written atomically. AtomicFile's errors.
void write_encoded(const std::filesystem::path& path, const Fingerprint& key,
                   const EncodedColumns<ColumnView>& columns);

/// Maps such a file. DataError if it is missing, has another version or key, is truncated or changed in any byte
/// (checksums of header and columns), or if its values violate `limits`.
std::shared_ptr<const EncodedDataset> open_encoded(const std::filesystem::path& path, const Fingerprint& key,
                                                   const EncodedLimits& limits);

}  // namespace chorus::inline tasks
