#include "application/data/partition/hdf5/h5_partition_reader.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "application/data/partition/hdf5/h5_handle.h"
#include "application/data/partition/partition_file.h"
#include "core/base/error.h"

namespace chorus::inline partition_hdf5 {
namespace {

/// Distinct ids never compress to fewer bytes than this: a file that claims more would only fill the memory.
constexpr std::uint64_t kMostIdsPerByte = 256;

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

struct Place {
  hid_t parent;
  std::string path;  // for messages: file and objects so far

  Place under(hid_t id, const std::string& name) const { return {id, path + "/" + name}; }
  [[noreturn]] void fail(const std::string& what) const {
    const std::string reason = h5_reason();
    throw DataError(fmt::format("{}: {}{}", path, what, reason.empty() ? "" : fmt::format(" ({})", reason)));
  }
  bool has(const char* name) const { return H5Lexists(parent, name, H5P_DEFAULT) > 0; }
};

H5Handle open_group(const Place& place, const std::string& name) {
  H5Handle group(H5Oopen(place.parent, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!group.valid()) place.fail(fmt::format("cannot open {}", name));
  if (H5Iget_type(group.get()) != H5I_GROUP) place.fail(fmt::format("{} is not a group", name));
  return group;
}

std::vector<std::string> children(const Place& place) {
  std::vector<std::string> names;
  // In native order: the sorted orders of HDF5 1.10 free memory they never set when a large group is damaged.
  if (H5Literate(place.parent, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect_name, &names) < 0) {
    place.fail("cannot list its members");
  }
  std::sort(names.begin(), names.end());
  return names;
}

H5Handle open_dataset(const Place& place, const char* name) {
  H5Handle data(H5Oopen(place.parent, name, H5P_DEFAULT), H5Oclose);
  if (!data.valid()) place.fail(fmt::format("cannot open {}", name));
  if (H5Iget_type(data.get()) != H5I_DATASET) place.fail(fmt::format("{} is not a dataset", name));
  return data;
}

H5T_class_t type_class(const H5Handle& data) {
  const H5Handle type(H5Dget_type(data.get()), H5Tclose);
  return type.valid() ? H5Tget_class(type.get()) : H5T_NO_CLASS;
}

/// The values of a one-dimensional integer dataset; an empty one may have any type.
std::vector<std::int64_t> read_integers(const Place& place, const char* name, std::uint64_t most) {
  const H5Handle data = open_dataset(place, name);
  const H5Handle space(H5Dget_space(data.get()), H5Sclose);
  if (!space.valid()) place.fail(fmt::format("{} has no extent", name));
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  const bool null = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
  if (null || points == 0) return {};
  if (points < 0 || H5Sget_simple_extent_ndims(space.get()) != 1) {
    place.fail(fmt::format("{} is not a list (one dimension)", name));
  }
  if (type_class(data) != H5T_INTEGER) place.fail(fmt::format("{} does not hold integers", name));
  if (static_cast<std::uint64_t>(points) > most) {
    place.fail(fmt::format("{} claims {} entries, more than a file of this size can hold", name, points));
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(points));
  if (H5Dread(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
    place.fail(fmt::format("cannot read {}", name));
  }
  return values;
}

std::optional<double> read_number(const Place& place, const char* name) {
  if (!place.has(name)) return std::nullopt;
  const H5Handle data = open_dataset(place, name);
  const H5Handle space(H5Dget_space(data.get()), H5Sclose);
  const H5T_class_t kind = type_class(data);
  if (!space.valid() || H5Sget_simple_extent_npoints(space.get()) != 1 || (kind != H5T_INTEGER && kind != H5T_FLOAT)) {
    place.fail(fmt::format("{} is not one number", name));
  }
  double value = 0;
  if (H5Dread(data.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) < 0) {
    place.fail(fmt::format("cannot read {}", name));
  }
  return value;
}

std::string read_text(const Place& place, const char* name) {
  const H5Handle data = open_dataset(place, name);
  const H5Handle type(H5Dget_type(data.get()), H5Tclose);
  const H5Handle space(H5Dget_space(data.get()), H5Sclose);
  if (!type.valid() || !space.valid() || H5Tis_variable_str(type.get()) <= 0 ||
      H5Sget_simple_extent_npoints(space.get()) != 1) {
    place.fail(fmt::format("{} is not a text", name));
  }
  char* text = nullptr;
  if (H5Dread(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) < 0 || text == nullptr) {
    place.fail(fmt::format("cannot read {}", name));
  }
  std::string result(text);
  H5free_memory(text);
  return result;
}

std::vector<ExampleId> to_ids(const std::vector<std::int64_t>& values, const Place& place, const char* name) {
  std::vector<ExampleId> ids(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= std::numeric_limits<ExampleId>::max()) {
      place.fail(fmt::format("{} holds {}, which is not an example id", name, values[i]));
    }
    ids[i] = static_cast<ExampleId>(values[i]);
  }
  return ids;
}

/// Sorts clients by number when they are 0 .. n-1, else by name. True when numbered.
bool order_clients(std::vector<std::string>& names) {
  std::vector<std::string> ordered(names.size());
  for (const std::string& name : names) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool plain = error == std::errc{} && end == name.data() + name.size() && name == std::to_string(number);
    if (!plain || number >= names.size() || !ordered[number].empty()) return false;
    ordered[number] = name;
  }
  names = std::move(ordered);
  return true;
}

}  // namespace

struct H5PartitionReader::State {
  H5Quiet quiet;
  H5Handle file;
  std::uint64_t bytes;

  explicit State(const std::filesystem::path& path)
      : file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose) {
    std::error_code error;
    bytes = std::filesystem::file_size(path, error);
  }
  Place root(const std::filesystem::path& path) const { return {file.get(), path.string()}; }
};

H5PartitionReader::H5PartitionReader(std::filesystem::path path) : path_(std::move(path)), state_(new State(path_)) {
  if (state_->file.valid()) return;
  const std::string reason = h5_reason();
  delete state_;
  throw DataError(fmt::format("{}: damaged or incomplete HDF5 file{}", path_.string(),
                              reason.empty() ? "" : fmt::format(" (the HDF5 library says: {})", reason)));
}

H5PartitionReader::~H5PartitionReader() { delete state_; }

std::vector<std::string> H5PartitionReader::groups() const {
  const Place root = state_->root(path_);
  std::vector<std::string> result;
  for (const std::string& name : children(root)) {
    const H5Handle object(H5Oopen(root.parent, name.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.valid() || H5Iget_type(object.get()) != H5I_GROUP) continue;
    if (H5Lexists(object.get(), "partition_data", H5P_DEFAULT) > 0) result.push_back(name);
  }
  std::sort(result.begin(), result.end());
  return result;
}

Partition H5PartitionReader::read(const std::string& group) const {
  const Place root = state_->root(path_);
  const H5Handle opened = open_group(root, group);
  const Place place = root.under(opened.get(), group);
  const H5Handle data = open_group(place, "partition_data");
  const Place clients = place.under(data.get(), "partition_data");
  const std::uint64_t most = state_->bytes * kMostIdsPerByte;

  std::vector<std::string> names = children(clients);
  const bool numbered = order_clients(names);
  if (const auto count = read_number(place, "n_clients"); count && *count != static_cast<double>(names.size())) {
    place.fail(fmt::format("n_clients is {:g}, but partition_data holds {} clients", *count, names.size()));
  }

  Partition partition;
  std::uint64_t total = 0;
  for (const std::string& name : names) {
    const H5Handle client = open_group(clients, name);
    const Place mine = clients.under(client.get(), name);
    const std::vector<std::int64_t> train = read_integers(mine, "train", most);
    const std::vector<std::int64_t> test =
        mine.has("test") ? read_integers(mine, "test", most) : std::vector<std::int64_t>{};
    total += train.size() + test.size();
    if (total > most) mine.fail("the lists are longer in total than a file of this size can hold");
    partition.train.append(to_ids(train, mine, "train"));
    partition.test.append(to_ids(test, mine, "test"));
  }
  partition.info.group = group;
  partition.info.method = method_of_group(group);
  for (const char* name : {"alpha", "beta", "natural_factors"}) {
    if (const auto value = read_number(place, name)) partition.info.numbers[name] = *value;
  }
  if (!numbered) partition.client_names = names;
  if (place.has("chorus")) read_partition_info(read_text(place, "chorus"), partition, place.path);
  for (const char* name : {"client_assignment", "cluster_assignment"}) {
    if (!place.has(name) || !partition.clusters.empty()) continue;
    for (const std::int64_t cluster : read_integers(place, name, most)) {
      if (cluster < 0 || cluster > std::numeric_limits<std::int32_t>::max()) {
        place.fail(fmt::format("{} holds {}, which is not a cluster", name, cluster));
      }
      partition.clusters.push_back(static_cast<std::int32_t>(cluster));
    }
  }
  return partition;
}

}  // namespace chorus::inline partition_hdf5
