#include "core/files/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace chorus::inline files {
namespace {

Fingerprint print_of(std::span<const std::byte> bytes) {
  return fingerprint({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

SpillFile::SpillFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;  // a failure shows in the open below
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor_ < 0) trouble_ = path.string() + ": " + std::strerror(errno);
}

SpillFile::~SpillFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::optional<SpillFile::Place> SpillFile::append(std::span<const std::byte> bytes) {
  if (!trouble_.empty()) return std::nullopt;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote =
        ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(size_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      trouble_ = path_.string() + ": " + std::strerror(wrote < 0 ? errno : ENOSPC);
      return std::nullopt;
    }
    done += static_cast<std::size_t>(wrote);
  }
  const Place place{size_, bytes.size(), print_of(bytes)};
  size_ += bytes.size();
  return place;
}

bool SpillFile::read(const Place& place, std::span<std::byte> into) const {
  for (std::size_t done = 0; done < into.size();) {
    const ssize_t got =
        ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(place.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return print_of(into) == place.print;
}

}  // namespace chorus::inline files
