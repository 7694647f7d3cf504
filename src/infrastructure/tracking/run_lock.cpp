#include "infrastructure/tracking/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline tracking {

RunLock::RunLock(const std::filesystem::path& folder, const std::string& taken) {
  const std::filesystem::path path = folder / "lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  if (error == EWOULDBLOCK) throw WorldError(taken);
  const std::string message =
      fmt::format("{}: cannot be locked: {}", path.string(), std::generic_category().message(error));
  if (error == EACCES || error == EPERM || error == EROFS) throw DataError(message);
  throw WorldError(message);
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace chorus::inline tracking
