#include "application/data/partition/partition_file.h"

namespace chorus::inline partition_hdf5 {
namespace {

const NameRegistration kMissing{
    {.kind = std::string(PartitionFormat::kKind),
     .name = "h5",
     .summary = "FedNLP's partition files",
     .unavailable = "it was built without HDF5 (install libhdf5-dev and build again, or use a .json file)"}};

}  // namespace
}  // namespace chorus::inline partition_hdf5
