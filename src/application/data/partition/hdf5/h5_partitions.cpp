#include <algorithm>

#include "application/data/partition/hdf5/h5_partition_reader.h"
#include "application/data/partition/hdf5/h5_partition_writer.h"
#include "application/data/partition/partition_file.h"

namespace chorus::inline partition_hdf5 {
namespace {

class H5Partitions : public PartitionFormat {
 public:
  bool starts_like(std::string_view bytes) const override {
    constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
    for (std::size_t at = 0; at < bytes.size(); at = std::max<std::size_t>(512, at * 2)) {
      if (bytes.substr(at).starts_with(kSignature)) return true;
    }
    return false;
  }
  std::vector<std::string> groups(const std::filesystem::path& path) const override {
    return H5PartitionReader(path).groups();
  }
  Partition read(const std::filesystem::path& path, const std::string& group) const override {
    return H5PartitionReader(path).read(group);
  }
  void write(const std::filesystem::path& path, const Partition& partition,
             const std::string& replaced) const override {
    write_h5_partition(path, partition, replaced);
  }
};

const Registration<PartitionFormats> kRegistered{"h5", "FedNLP's partition files (HDF5), several partitions per file",
                                                 [] { return std::make_unique<H5Partitions>(); }};

}  // namespace
}  // namespace chorus::inline partition_hdf5
