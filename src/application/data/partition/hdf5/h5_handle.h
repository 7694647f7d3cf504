#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace chorus::inline partition_hdf5 {

/// Owns an HDF5 identifier (hid_t) with its closing function. A failed call gives an invalid handle.
class H5Handle {
 public:
  using Close = int (*)(std::int64_t);

  H5Handle(std::int64_t id, Close close) : id_(id), close_(close) {}
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  H5Handle(const H5Handle&) = delete;
  H5Handle& operator=(const H5Handle&) = delete;
  H5Handle& operator=(H5Handle&&) = delete;
  ~H5Handle() { reset(); }

  std::int64_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Closes now; false on failure (a file's last bytes may be lost).
  bool reset() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

 private:
  std::int64_t id_;
  Close close_;
};

/// Silences the library during its lifetime.
class H5Quiet {
 public:
  H5Quiet();
  H5Quiet(const H5Quiet&) = delete;
  H5Quiet& operator=(const H5Quiet&) = delete;
  ~H5Quiet();

 private:
  void* function_ = nullptr;
  void* data_ = nullptr;
};

/// The library's innermost reason for the last failure, such as "truncated file: eof = 512, ...", or empty.
std::string h5_reason();

}  // namespace chorus::inline partition_hdf5
