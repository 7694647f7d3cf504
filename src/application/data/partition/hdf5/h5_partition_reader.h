#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "application/data/partition/partition.h"

namespace chorus {

/// Reads FedNLP's partition files (docs/formats.md): many partitions a file, one root group each. Accepts files without
/// `n_clients`, clients that are not numbered, empty lists of any type, and anything else beside. Every count and id is
/// checked before it is used. The HDF5 library is not thread-safe, and so neither is this.
class H5PartitionReader {
 public:
  /// Throws DataError when the file is no HDF5 file or is damaged.
  explicit H5PartitionReader(std::filesystem::path path);
  H5PartitionReader(const H5PartitionReader&) = delete;
  H5PartitionReader& operator=(const H5PartitionReader&) = delete;
  ~H5PartitionReader();

  /// Root groups that hold a partition, in the order of the alphabet.
  std::vector<std::string> groups() const;
  Partition read(const std::string& group) const;

 private:
  struct State;

  std::filesystem::path path_;
  State* state_;
};

}  // namespace chorus
