#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/partition/partition.h"
#include "core/config/registry.h"

namespace chorus {

/// One kind of file that holds named partitions ("groups"). Layouts: docs/formats.md. Registered: "json", and "h5"
/// where HDF5 is there.
class PartitionFormat {
 public:
  static constexpr std::string_view kKind = "partition_format";
  virtual ~PartitionFormat() = default;

  /// Whether a file that starts with these bytes is of this kind.
  virtual bool starts_like(std::string_view bytes) const = 0;
  /// Names of the groups, in the order of the alphabet. DataError when the file is not what it should be.
  virtual std::vector<std::string> groups(const std::filesystem::path& path) const = 0;
  virtual Partition read(const std::filesystem::path& path, const std::string& group) const = 0;
  /// Adds the partition under info.group to a file that may have others, or none; removes `replaced` (a group's name,
  /// or empty). The file changes in one step or not at all.
  virtual void write(const std::filesystem::path& path, const Partition& partition,
                     const std::string& replaced) const = 0;
};
using PartitionFormats = Registry<PartitionFormat>;

/// The groups of a partition file, whatever its format.
std::vector<std::string> partition_groups(const std::filesystem::path& path);

/// One partition. `group` may be spelt either way FedNLP spells it, or be empty when the file has only one. Throws
/// DataError when the file is missing, damaged or has no such group (and names the nearest).
///
///     Partition partition = read_partition("20news_partition.h5", "niid_label_clients=100_alpha=1.0");
Partition read_partition(const std::filesystem::path& path, const std::string& group = "");

/// Adds the partition to the file (created when missing; format by its ending, .h5 or .json). Groups that are there
/// already are never lost. Throws ConfigError when the group exists, in any spelling, unless `replace`.
void write_partition(const std::filesystem::path& path, const Partition& partition, bool replace = false);

/// One spelling for all that FedNLP's files and scripts use: numbers as %g prints them ("alpha=1.0" -> "alpha=1"),
/// "kmeans_10" -> "kmeans_clusters=10", "nature" -> "natural".
std::string canonical_group(std::string_view group);

/// The name among `groups` that means `wanted`, or "" when there is none: the same spelling, the same canonical one, or
/// the only one of that kind where one of the two does not say its number of clients ("uniform", "natural").
std::string find_group(const std::vector<std::string>& groups, std::string_view wanted);

/// The partitioner that makes groups of this name, or "" ("niid_label_..." -> "label_dirichlet"): for files that do not
/// say.
std::string method_of_group(std::string_view group);

/// Where the partition came from, as one JSON object, and back: stored beside the ids in every format. `from` throws
/// DataError; `where` names the place.
std::string partition_info_json(const Partition& partition);
void read_partition_info(std::string_view json, Partition& partition, const std::string& where);

/// Holds a lock on the folder of `path` while it lives: two programs that add to one partition file wait for each
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

}  // namespace chorus
