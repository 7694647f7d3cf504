#pragma once

#include <filesystem>
#include <string>

namespace chorus::inline tracking {

/// An exclusive flock on the file `lock` in a folder, held while the object lives; released when the process dies.
///
///     const RunLock lock(folder, "runs/a: another process is working on this run");
class RunLock {
 public:
  /// WorldError with `taken` when another process (or another object of this one) holds it.
  RunLock(const std::filesystem::path& folder, const std::string& taken);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

 private:
  int descriptor_ = -1;
};

}  // namespace chorus::inline tracking
