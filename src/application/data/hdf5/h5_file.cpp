#include "application/data/hdf5/h5_file.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <cmath>
#include <cstring>

#include "core/base/error.h"

namespace chorus::inline hdf5 {
namespace {

constexpr hssize_t kMostElements = 100'000'000;
constexpr std::size_t kLongestString = 1U << 30;

/// Closes a library handle.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

void read_variable_strings(hid_t dataset, hid_t type, hid_t space, std::vector<std::string>& strings) {
  std::vector<char*> raw(strings.size(), nullptr);
  Handle memory(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(memory.get(), H5T_VARIABLE);
  H5Tset_cset(memory.get(), H5Tget_cset(type));
  if (H5Dread(dataset, memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.data()) < 0) {
    throw DataError("its strings cannot be read");
  }
  for (std::size_t i = 0; i < raw.size(); ++i) strings[i] = raw[i] == nullptr ? "" : raw[i];
  H5Dvlen_reclaim(memory.get(), space, H5P_DEFAULT, raw.data());
}

void read_fixed_strings(hid_t dataset, hid_t type, std::vector<std::string>& strings) {
  const std::size_t width = H5Tget_size(type);
  if (width == 0 || width > kLongestString || strings.size() > kLongestString / width) {
    throw DataError("its strings are too long");
  }
  std::vector<char> raw(strings.size() * width);
  if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.data()) < 0) {
    throw DataError("its strings cannot be read");
  }
  const bool spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const char* begin = raw.data() + i * width;
    strings[i].assign(begin, strnlen(begin, width));
    if (spaces) strings[i].resize(strings[i].find_last_not_of(' ') + 1);
  }
}

void read_numbers(hid_t dataset, bool whole, std::vector<std::int64_t>& numbers) {
  static_assert(sizeof(long long) == sizeof(std::int64_t));
  if (whole) {
    if (H5Dread(dataset, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) < 0) {
      throw DataError("its numbers cannot be read");
    }
    return;
  }
  std::vector<double> values(numbers.size());
  if (H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
    throw DataError("its numbers cannot be read");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(std::abs(values[i]) < 9e15) || values[i] != std::floor(values[i])) {
      throw DataError(fmt::format("{} is not an integer", values[i]));
    }
    numbers[i] = static_cast<std::int64_t>(values[i]);
  }
}

void read_dataset(hid_t file, const std::string& name, H5Value& value) {
  const Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) throw DataError("it is missing");
  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const Handle space(H5Dget_space(dataset.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (rank > 1 || rank < 0) throw DataError(fmt::format("it has {} dimensions, but at most one is supported", rank));
  if (count < 0 || count > kMostElements)
    throw DataError(fmt::format("it claims {} elements, more than allowed", count));
  const H5T_class_t kind = H5Tget_class(type.get());
  value.is_scalar = rank == 0;
  value.is_text = kind == H5T_STRING;
  value.strings.clear();
  value.numbers.clear();
  if (count == 0) return;
  const auto size = static_cast<std::size_t>(count);
  if (kind == H5T_STRING) {
    value.strings.resize(size);
    if (H5Tis_variable_str(type.get()) > 0) {
      read_variable_strings(dataset.get(), type.get(), space.get(), value.strings);
    } else {
      read_fixed_strings(dataset.get(), type.get(), value.strings);
    }
  } else if (kind == H5T_INTEGER || kind == H5T_FLOAT) {
    value.numbers.resize(size);
    read_numbers(dataset.get(), kind == H5T_INTEGER, value.numbers);
  } else {
    throw DataError("it is neither text nor numbers");
  }
}

}  // namespace

H5File::H5File(const std::filesystem::path& path) : path_(path) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  std::error_code code;
  if (!std::filesystem::exists(path, code)) throw DataError(fmt::format("{}: no such file", path.string()));
  if (!std::filesystem::is_regular_file(path, code) || H5Fis_hdf5(path.c_str()) <= 0) {
    throw DataError(fmt::format("{}: not an HDF5 file", path.string()));
  }
  file_ = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file_ < 0) {
    throw DataError(fmt::format("{}: cannot be opened; the HDF5 file is damaged or incomplete", path.string()));
  }
}

H5File::~H5File() {
  if (file_ >= 0) H5Fclose(file_);
}

bool H5File::has(const std::string& name) const {
  // H5Lexists requires every step of the path to exist.
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (H5Lexists(file_, name.substr(0, slash).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return H5Lexists(file_, name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> H5File::children(const std::string& group) const {
  std::vector<std::string> names;
  const Handle handle(H5Gopen2(file_, group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!handle) return names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  H5Literate(handle.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &names);
  return names;
}

void H5File::read(const std::string& name, H5Value& value) const {
  try {
    read_dataset(file_, name, value);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}: {}", path_.string(), name, error.what()));
  }
}

std::string H5File::read_text(const std::string& name) const {
  H5Value value;
  read(name, value);
  if (!value.is_text || value.strings.size() != 1) {
    throw DataError(fmt::format("{}: {}: expected one string", path_.string(), name));
  }
  return std::move(value.strings.front());
}

}  // namespace chorus::inline hdf5
