#pragma once

#include <filesystem>
#include <string>

namespace chorus {

/// An exclusive flock on the file `lock` in a folder, held as long as the object lives; a process that dies loses it.
///
///     const FolderLock lock(folder, "runs/a: another process is working on this run");
class FolderLock {
 public:
  /// WorldError with `taken` when another process (or another object of this one) has it.
  FolderLock(const std::filesystem::path& folder, const std::string& taken);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

}  // namespace chorus
