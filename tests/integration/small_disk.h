#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace chorus::inline integration {

/// A folder that is a disk of its own (tmpfs), which a test can fill. Needs root; elsewhere `mounted` is false.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path folder, std::size_t mebibytes) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    const std::string size = "mode=0700,size=" + std::to_string(mebibytes) + "m";
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    make_room();
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Leaves no byte free, and takes what others free, until there is to be room again.
  void fill() {
    filling_ = true;
    filler_ = std::thread([this] {
      const std::string block(4096, 'x');
      const int file = ::open((folder_ / "filler").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      for (std::size_t size = block.size(); filling_;) {
        if (::write(file, block.data(), size) > 0) continue;
        size = size > 1 ? size / 2 : block.size();
        if (size == block.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      ::close(file);
    });
  }
  void make_room() {
    filling_ = false;
    if (filler_.joinable()) filler_.join();
    std::error_code ignored;
    std::filesystem::remove(folder_ / "filler", ignored);
  }

 private:
  std::filesystem::path folder_;
  bool mounted_ = false;
  std::atomic<bool> filling_ = false;
  std::thread filler_;
};

}  // namespace chorus::inline integration
