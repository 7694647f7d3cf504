#pragma once

#include <filesystem>
#include <string>

#include "application/data/partition/partition.h"

namespace chorus::inline partition_hdf5 {

/// Adds a partition in FedNLP's layout (docs/reference/formats.md) to a new or existing HDF5 file. The work is
/// done in memory, and the result replaces the file once everything is on disk: a crash, a full disk or an exception
/// leaves the file unchanged. `replaced` names a group to remove in the same step, or is empty.
void write_h5_partition(const std::filesystem::path& path, const Partition& partition, const std::string& replaced);

}  // namespace chorus::inline partition_hdf5
