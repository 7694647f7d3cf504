#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace chorus::inline hdf5 {

/// The value of an HDF5 dataset: strings or integers, a scalar or a list.
struct H5Value {
  std::vector<std::string> strings;
  std::vector<std::int64_t> numbers;
  bool is_text = false;
  bool is_scalar = false;
};

/// An HDF5 file opened for reading: only what FedNLP's files need. The library's own messages are silenced; every
/// failure is a DataError that names the file and the object. Not thread-safe (nor is the library). Truncated files are
/// rejected; the library (1.10) is not safe against a maliciously changed string heap, so read HDF5 files only from
/// people you trust, and prefer JSONL otherwise.
///
///     H5File file(path);
///     if (file.has("X/0")) file.read("X/0", value);
class H5File {
 public:
  explicit H5File(const std::filesystem::path& path);
  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;
  ~H5File();

  /// Whether the object exists. `name` is a path such as "X_0/X/12".
  bool has(const std::string& name) const;
  /// Names of the members of a group ("/": the root), in the library's order. Empty when it is not a group.
  std::vector<std::string> children(const std::string& group) const;
  /// Reads a dataset: strings of fixed or variable length, integers of any size, floats with integer values. Scalars
  /// and one dimension only. An empty list may have any type.
  void read(const std::string& name, H5Value& value) const;
  std::string read_text(const std::string& name) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::int64_t file_ = -1;
};

}  // namespace chorus::inline hdf5
