#include "application/data/partition/hdf5/h5_partition_writer.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "application/data/partition/hdf5/h5_handle.h"
#include "application/data/partition/partition_file.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline partition_hdf5 {
namespace {

/// Lists up to this size are stored in the dataset's header: a tenth of the size and time for many small clients.
constexpr std::size_t kCompactBytes = 8192;

[[noreturn]] void fail(const std::string& what) {
  throw WorldError(fmt::format("cannot write {}: {}", what, h5_reason()));
}

H5Handle make_group(hid_t parent, const std::string& name) {
  H5Handle group(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  if (!group.valid()) fail(fmt::format("the group {}", name));
  return group;
}

/// Writes lists and scalars; property lists are created once, not per dataset.
class DatasetWriter {
 public:
  DatasetWriter() : plain_(H5Pcreate(H5P_DATASET_CREATE), H5Pclose), compact_(H5Pcreate(H5P_DATASET_CREATE), H5Pclose) {
    for (const hid_t list : {plain_.get(), compact_.get()}) H5Pset_obj_track_times(list, false);
    H5Pset_layout(compact_.get(), H5D_COMPACT);
  }

  template <typename T>
  void list(hid_t parent, const char* name, std::span<const T> values) {
    numbers_.assign(values.begin(), values.end());
    const hsize_t size = numbers_.size();
    const H5Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
    const bool small = size > 0 && size * sizeof(std::int64_t) <= kCompactBytes;
    put(parent, name, H5T_STD_I64LE, H5T_NATIVE_INT64, space, small, numbers_.data());
  }
  void integer(hid_t parent, const char* name, std::int64_t value) {
    const H5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    put(parent, name, H5T_STD_I64LE, H5T_NATIVE_INT64, space, true, &value);
  }
  void real(hid_t parent, const char* name, double value) {
    const H5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    put(parent, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, space, true, &value);
  }
  void text(hid_t parent, const char* name, const std::string& value) {
    const H5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), H5T_VARIABLE);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    const char* pointer = value.c_str();
    put(parent, name, type.get(), type.get(), space, false, static_cast<const void*>(&pointer));
  }

 private:
  void put(hid_t parent, const char* name, hid_t stored, hid_t memory, const H5Handle& space, bool small,
           const void* values) {
    const hid_t layout = small ? compact_.get() : plain_.get();
    const H5Handle data(H5Dcreate2(parent, name, stored, space.get(), H5P_DEFAULT, layout, H5P_DEFAULT), H5Dclose);
    if (!data.valid()) fail(name);
    if (H5Sget_simple_extent_npoints(space.get()) == 0) return;
    if (H5Dwrite(data.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) fail(name);
  }

  H5Handle plain_, compact_;
  std::vector<std::int64_t> numbers_;
};

void write_group(hid_t file, const Partition& partition) {
  DatasetWriter writer;
  const H5Handle group = make_group(file, partition.info.group);
  writer.integer(group.get(), "n_clients", static_cast<std::int64_t>(partition.clients()));
  for (const char* name : {"alpha", "beta"}) {
    const auto found = partition.info.numbers.find(name);
    if (found != partition.info.numbers.end()) writer.real(group.get(), name, found->second);
  }
  const auto factors = partition.info.numbers.find("natural_factors");
  if (factors != partition.info.numbers.end()) {
    writer.integer(group.get(), "natural_factors", static_cast<std::int64_t>(factors->second));
  }
  if (!partition.clusters.empty()) {
    writer.list(group.get(), "client_assignment", std::span<const std::int32_t>(partition.clusters));
  }
  writer.text(group.get(), "chorus", partition_info_json(partition));
  const H5Handle data = make_group(group.get(), "partition_data");
  for (std::size_t client = 0; client < partition.clients(); ++client) {
    const H5Handle mine = make_group(data.get(), std::to_string(client));
    writer.list(mine.get(), "train", partition.train[client]);
    writer.list(mine.get(), "test", partition.test[client]);
  }
}

/// Jenkins' lookup3 (2006), the checksum of HDF5's metadata.
std::uint32_t lookup3(std::span<const std::byte> bytes) {
  std::array<std::uint32_t, 3> s;
  s.fill(0xdeadbeef + static_cast<std::uint32_t>(bytes.size()));
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) s[i / 4] += static_cast<std::uint32_t>(bytes[i]) << (8 * (i % 4));
    bytes = bytes.subspan(count);
  };
  while (bytes.size() > 12) {
    add(12);
    for (std::size_t i = 0; i < 6; ++i) {
      constexpr std::array<int, 6> kTurns{4, 6, 8, 16, 19, 4};
      std::uint32_t &a = s[i % 3], &b = s[(i + 1) % 3], &c = s[(i + 2) % 3];
      a = (a - c) ^ std::rotl(c, kTurns[i]);
      c += b;
    }
  }
  if (bytes.empty()) return s[2];
  add(bytes.size());
  for (std::size_t i = 0; i < 7; ++i) {
    constexpr std::array<int, 7> kTurns{14, 11, 25, 16, 4, 14, 24};
    std::uint32_t &x = s[(i + 2) % 3], &y = s[(i + 1) % 3];
    x = (x ^ y) - std::rotl(y, kTurns[i]);
  }
  return s[2];
}

/// H5Fget_file_image clears the flags of an open file in the superblock, but leaves its checksum as it was.
void mend_superblock(std::span<std::byte> image) {
  constexpr std::size_t kVersion = 8, kOffsetWidth = 9, kFields = 12;           // 12 bytes, four offsets, the checksum
  if (image.size() < kFields || static_cast<int>(image[kVersion]) < 2) return;  // older ones have none
  const std::size_t size = kFields + 4 * static_cast<std::size_t>(image[kOffsetWidth]);
  if (image.size() < size + sizeof(std::uint32_t)) return;
  const std::uint32_t sum = lookup3(image.first(size));
  std::memcpy(image.data() + size, &sum, sizeof sum);
}

}  // namespace

void write_h5_partition(const std::filesystem::path& path, const Partition& partition, const std::string& replaced) {
  const H5Quiet quiet;
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  const H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // The format since HDF5 1.8 (2008): groups take a fifth of the space.
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V110);
  // In memory: the library crashes when it cannot write its caches to a full disk.
  constexpr std::size_t kStep = 1 << 20;
  H5Pset_fapl_core(access.get(), kStep, /*backing_store=*/false);
  const H5Handle file(existed ? H5Fopen(path.c_str(), H5F_ACC_RDWR, access.get())
                              : H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                      H5Fclose);
  if (!file.valid()) {
    throw DataError(fmt::format("cannot {} {}: {}", existed ? "add to" : "create", path.string(), h5_reason()));
  }
  if (!replaced.empty() && H5Ldelete(file.get(), replaced.c_str(), H5P_DEFAULT) < 0) {
    fail(fmt::format("{} without {}", path.string(), replaced));
  }
  write_group(file.get(), partition);
  if (H5Fflush(file.get(), H5F_SCOPE_GLOBAL) < 0) fail(path.string());
  const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
  if (size <= 0) fail(path.string());
  std::vector<std::byte> image(static_cast<std::size_t>(size));
  if (H5Fget_file_image(file.get(), image.data(), image.size()) != size) fail(path.string());
  mend_superblock(image);
  AtomicFile written(path);
  written.write(image);
  written.commit();
}

}  // namespace chorus::inline partition_hdf5
