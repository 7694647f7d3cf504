#include "core/files/file_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

namespace chorus::inline files {
namespace {

/// The mappings of this process: end by begin.
struct Mappings {
  std::mutex mutex;
  std::map<std::uintptr_t, std::uintptr_t> ends;
};

Mappings& mappings() {
  static Mappings* all = new Mappings;  // never destroyed: memory may be forgotten while the program ends
  return *all;
}

/// The end of the mapping that this address lies in, or 0. The caller holds the mutex.
std::uintptr_t end_of_mapping(std::uintptr_t at) {
  const auto after = mappings().ends.upper_bound(at);
  if (after == mappings().ends.begin()) return 0;
  const std::uintptr_t end = std::prev(after)->second;
  return at < end ? end : 0;
}

}  // namespace

std::shared_ptr<FileMemory> FileMemory::create(const std::filesystem::path& folder, std::size_t size,
                                               std::string& trouble) {
  const auto fail = [&](int error) {
    trouble = fmt::format("{} bytes in {}: {}", size, folder.string(), std::strerror(error));
    return nullptr;
  };
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) return fail(errno);
  if (const int error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(std::max<std::size_t>(size, 1)))) {
    ::close(descriptor);
    return fail(error);
  }
  void* data = ::mmap(nullptr, std::max<std::size_t>(size, 1), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(descriptor);
    return fail(error);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().ends[begin] = begin + std::max<std::size_t>(size, 1);
  }
  return std::shared_ptr<FileMemory>(new FileMemory(descriptor, data, size));
}

FileMemory::~FileMemory() {
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().ends.erase(reinterpret_cast<std::uintptr_t>(data_));
  }
  ::munmap(data_, std::max<std::size_t>(size_, 1));
  ::close(descriptor_);
}

bool FileMemory::append(std::string_view bytes) {
  if (bytes.size() > size_ - written_) return false;
  while (!bytes.empty()) {
    const ssize_t wrote = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(written_));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    written_ += static_cast<std::size_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

bool lies_in_file(const void* bytes) {
  const std::lock_guard lock(mappings().mutex);
  return end_of_mapping(reinterpret_cast<std::uintptr_t>(bytes)) != 0;
}

void forget_pages(const void* begin, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::lock_guard lock(mappings().mutex);
  const std::uintptr_t end = end_of_mapping(at);
  if (end == 0) return;
  // Whole pages, and the one before: the caller may have read its end last time.
  const std::uintptr_t first = at / page * page;
  const std::uintptr_t last = std::min(at + bytes, end) / page * page;
  // The file keeps the values, changed ones included.
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace chorus::inline files
