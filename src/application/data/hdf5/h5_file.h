#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace chorus {

/// A value read from an HDF5 dataset: strings or whole numbers, one (a scalar) or a list.
struct H5Value {
  std::vector<std::string> strings;
  std::vector<std::int64_t> numbers;
  bool is_text = false;
  bool is_scalar = false;
};

/// An HDF5 file opened for reading: only what FedNLP's files need. The library's own messages are silenced; every
/// failure is a DataError that names the file and the object. Not thread-safe (nor is the library). A file that
/// is cut short is refused; the library itself (1.10) is not proof against one whose string heap was changed on
/// purpose, so read HDF5 files from people you trust, and prefer JSONL from others.
///
///     H5File file(path);
///     if (file.has("X/0")) file.read("X/0", value);
class H5File {
 public:
  explicit H5File(const std::filesystem::path& path);
  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;
  ~H5File();

  /// Whether the object is there. `name` is a path such as "X_0/X/12".
  bool has(const std::string& name) const;
  /// Names of what stands under a group ("/": the root), in the library's order. Empty when it is no group.
  std::vector<std::string> children(const std::string& group) const;
  /// The value of a dataset: strings of fixed or variable length, integers of any size, floating-point numbers that
  /// are whole. Scalars and one dimension only. An empty list may have any type.
  void read(const std::string& name, H5Value& value) const;
  std::string read_text(const std::string& name) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::int64_t file_ = -1;
};

}  // namespace chorus
