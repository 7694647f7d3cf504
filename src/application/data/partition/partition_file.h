#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/partition/partition.h"
#include "core/config/registry.h"

namespace chorus::inline partition {

/// A file format for named partitions ("groups"). Layouts: docs/reference/formats.md. Registered: "json", and "h5" when
/// built with HDF5.
class PartitionFormat {
 public:
  static constexpr std::string_view kKind = "partition_format";
  virtual ~PartitionFormat() = default;

  /// Whether a file that starts with these bytes has this format.
  virtual bool starts_like(std::string_view bytes) const = 0;
  /// Names of the groups, sorted. DataError for a damaged file.
  virtual std::vector<std::string> groups(const std::filesystem::path& path) const = 0;
  virtual Partition read(const std::filesystem::path& path, const std::string& group) const = 0;
  /// Adds the partition under info.group to a new or existing file and removes `replaced` (a group's name, or empty).
  /// Atomic.
  virtual void write(const std::filesystem::path& path, const Partition& partition,
                     const std::string& replaced) const = 0;
};
using PartitionFormats = Registry<PartitionFormat>;

/// The groups of a partition file of any format.
std::vector<std::string> partition_groups(const std::filesystem::path& path);

/// Reads one partition. `group` may use any of FedNLP's spellings, or be empty when the file has only one. DataError
/// when the file is missing or damaged or lacks the group (with the nearest name).
///
///     Partition partition = read_partition("20news_partition.h5", "niid_label_clients=100_alpha=1.0");
Partition read_partition(const std::filesystem::path& path, const std::string& group = "");

/// Adds the partition to the file (created when missing; format by extension, .h5 or .json). Other groups are kept.
/// ConfigError when the group exists, in any spelling, unless `replace`.
void write_partition(const std::filesystem::path& path, const Partition& partition, bool replace = false);

/// One spelling for all variants in FedNLP's files and scripts: numbers as %g prints them ("alpha=1.0" -> "alpha=1"),
/// "kmeans_10" -> "kmeans_clusters=10", "nature" -> "natural".
std::string canonical_group(std::string_view group);

/// The name among `groups` that means `wanted`, or "": the same spelling, the same canonical spelling, or the only one
/// of that kind when one of the two lacks its number of clients ("uniform", "natural").
std::string find_group(const std::vector<std::string>& groups, std::string_view wanted);

/// The partitioner for a group name, or "" ("niid_label_..." -> "label_dirichlet"): for files that do not name it.
std::string method_of_group(std::string_view group);

/// The partition's info as a JSON object, and back: stored beside the ids in every format. `from` throws DataError
/// naming `where`.
std::string partition_info_json(const Partition& partition);
void read_partition_info(std::string_view json, Partition& partition, const std::string& where);

/// Locks the folder of `path` during its lifetime, so that two programs that add to one partition file wait for each
/// other.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& path);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_;
};

}  // namespace chorus::inline partition
