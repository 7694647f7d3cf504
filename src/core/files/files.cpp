#include "core/files/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline files {
namespace {

namespace fs = std::filesystem;

/// Closes at the end of the scope.
struct Descriptor {
  int value;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

std::string reason(int error) { return std::generic_category().message(error); }

int open_for_reading(const fs::path& path) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor >= 0) return descriptor;
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) throw DataError(fmt::format("{}: no such file", path.string()));
  throw DataError(fmt::format("{}: cannot be opened: {}", path.string(), reason(error)));
}

struct stat status_of(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw DataError(fmt::format("{}: cannot be read: {}", path.string(), reason(errno)));
  }
  if (S_ISDIR(status.st_mode)) throw DataError(fmt::format("{}: is a folder; name a file in it", path.string()));
  return status;
}

}  // namespace

std::string read_file(const fs::path& path, std::uint64_t max_bytes) {
  const Descriptor file(open_for_reading(path));
  const auto status = status_of(file.value, path);
  const auto too_large = [&] {
    return DataError(fmt::format("{}: is larger than the {} bytes allowed here", path.string(), max_bytes));
  };
  const auto expected = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  if (S_ISREG(status.st_mode) && expected > max_bytes) throw too_large();

  // The size is a hint only: the file may grow, and files under /proc say 0.
  std::string bytes;
  if (S_ISREG(status.st_mode)) bytes.reserve(expected + 1);
  std::size_t used = 0;
  for (;;) {
    const std::size_t room = bytes.capacity() - used;
    const std::size_t step = room > 0 ? std::min<std::size_t>(room, 64 << 20) : 64 << 10;
    bytes.resize(used + step);
    const ssize_t got = ::read(file.value, bytes.data() + used, step);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(fmt::format("{}: cannot be read: {}", path.string(), reason(errno)));
    used += static_cast<std::size_t>(got);
    if (used > max_bytes) throw too_large();
    if (got == 0) break;
  }
  bytes.resize(used);
  return bytes;
}

void write_file(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AtomicFile::AtomicFile(const fs::path& path, Durability durability)
    : path_(path), target_(path), durability_(durability) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) {
    const fs::path resolved = fs::weakly_canonical(path, ignored);
    if (!ignored && !resolved.empty()) target_ = resolved;
  }
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw DataError(fmt::format("{}: is a folder; name a file", path_.string()));
  if (!target_.has_filename()) throw DataError(fmt::format("'{}': is not the name of a file", path_.string()));
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const std::string stem = fmt::format(".{}.{}", target_.filename().string().substr(0, 200), ::getpid());
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = folder / fmt::format("{}.{}.tmp", stem, attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST && attempt < 1000) continue;
    if (descriptor_ < 0) {
      const int error = errno;
      temporary_.clear();
      if (error == ENOENT || error == ENOTDIR) {
        throw DataError(
            fmt::format("{}: cannot be written: the folder {} does not exist", path_.string(), folder.string()));
      }
      fail(error);
    }
  }
  if (exists) (void)::fchmod(descriptor_, status.st_mode & 0777);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(int error) {
  // The destructor does not run when the constructor throws.
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  const std::string message = fmt::format("{}: cannot be written: {}", path_.string(), reason(error));
  if (error == EACCES || error == EPERM || error == EROFS || error == ENAMETOOLONG) throw DataError(message);
  throw WorldError(message);
}

void AtomicFile::write(std::string_view bytes) {
  check(descriptor_ >= 0, "AtomicFile::write after commit or a failure");
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void AtomicFile::commit() {
  check(descriptor_ >= 0, "AtomicFile::commit after commit or a failure");
  const bool direct = temporary_.empty();
  const bool sync = !direct && durability_ == Durability::kSynced;
  if (sync && ::fsync(descriptor_) != 0) fail(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
  if (direct) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  if (!sync) return;

  // The name must survive a power cut, too. Some file systems cannot sync a folder; that is ignored.
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.value >= 0) (void)::fsync(opened.value);
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(open_for_reading(path));
  const auto status = status_of(file.value, path);
  if (!S_ISREG(status.st_mode)) {
    throw DataError(fmt::format("{}: is not a regular file, so it cannot be mapped into memory", path.string()));
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (data == MAP_FAILED) {
    throw DataError(fmt::format("{}: cannot be mapped into memory: {}", path.string(), reason(errno)));
  }
  data_ = data;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace chorus::inline files
