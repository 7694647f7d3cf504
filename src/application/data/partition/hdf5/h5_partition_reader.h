#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "application/data/partition/partition.h"

namespace chorus::inline partition_hdf5 {

/// Reads FedNLP's partition files (docs/reference/formats.md): many partitions per file, one root group each. Accepts
/// files without `n_clients`, clients that are not numbered, empty lists of any type, and unknown objects. Every count
/// and id is checked before use. Not thread-safe, like the HDF5 library.
class H5PartitionReader {
 public:
  /// DataError when the file is not HDF5 or damaged.
  explicit H5PartitionReader(std::filesystem::path path);
  H5PartitionReader(const H5PartitionReader&) = delete;
  H5PartitionReader& operator=(const H5PartitionReader&) = delete;
  ~H5PartitionReader();

  /// Root groups that hold a partition, sorted.
  std::vector<std::string> groups() const;
  Partition read(const std::string& group) const;

 private:
  struct State;

  std::filesystem::path path_;
  State* state_;
};

}  // namespace chorus::inline partition_hdf5
