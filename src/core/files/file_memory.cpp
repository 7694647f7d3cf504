#include "core/files/file_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

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

/// Whole pages of a range that lie in one mapping; an empty range where there are none. The caller holds the mutex.
std::pair<std::uintptr_t, std::uintptr_t> mapped_pages(const void* begin, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t end = end_of_mapping(at);
  if (end == 0) return {};
  // Whole pages, and the one before: the caller may have read its end last time.
  return {at / page * page, std::min(at + bytes, end) / page * page};
}

}  // namespace

/// Files that are open and unused.
struct FileMemory::Idle {
  static constexpr std::size_t kMost = 8;
  std::mutex mutex;
  std::vector<File> files;

  /// One of this folder that is at most a little larger.
  std::optional<File> take(const std::filesystem::path& folder, std::size_t size) {
    const std::lock_guard lock(mutex);
    for (auto file = files.begin(); file != files.end(); ++file) {
      if (file->folder != folder || file->size < size || file->size - size > size / 8) continue;
      File found = std::move(*file);
      files.erase(file);
      return found;
    }
    return std::nullopt;
  }
  /// The file that must be closed instead, if there are too many.
  std::optional<File> keep(File file) {
    const std::lock_guard lock(mutex);
    files.push_back(std::move(file));
    if (files.size() <= kMost) return std::nullopt;
    File oldest = std::move(files.front());
    files.erase(files.begin());
    return oldest;
  }
};

FileMemory::Idle& FileMemory::idle() {
  static Idle* all = new Idle;  // never destroyed: values may live until the program ends
  return *all;
}

std::shared_ptr<FileMemory> FileMemory::create(const std::filesystem::path& folder, std::size_t wanted,
                                               std::string& trouble) {
  const std::size_t size = std::max<std::size_t>(wanted, 1);
  if (auto file = idle().take(folder, size)) return std::shared_ptr<FileMemory>(new FileMemory(std::move(*file)));
  const auto fail = [&](int error) {
    trouble = fmt::format("{} bytes in {}: {}", size, folder.string(), std::strerror(error));
    return nullptr;
  };
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) return fail(errno);
  if (const int error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(size))) {
    ::close(descriptor);
    return fail(error);
  }
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(descriptor);
    return fail(error);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().ends[begin] = begin + size;
  }
  return std::shared_ptr<FileMemory>(new FileMemory({folder, size, descriptor, data}));
}

FileMemory::~FileMemory() {
  ::madvise(data_, size_, MADV_DONTNEED);  // the pages leave this process's memory; the file keeps them
  const std::optional<File> surplus = idle().keep(std::move(file_));
  if (!surplus) return;
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().ends.erase(reinterpret_cast<std::uintptr_t>(surplus->data));
  }
  ::munmap(surplus->data, surplus->size);
  ::close(surplus->descriptor);
}

bool FileMemory::append(std::span<const std::string_view> pieces) {
  std::vector<iovec> left;
  std::size_t bytes = 0;
  for (const std::string_view piece : pieces) {
    if (!piece.empty()) left.push_back({const_cast<char*>(piece.data()), piece.size()});
    bytes += piece.size();
  }
  if (bytes > size_ - written_) return false;
  for (std::size_t first = 0; first < left.size();) {
    const int count = static_cast<int>(std::min<std::size_t>(left.size() - first, IOV_MAX));
    ssize_t wrote = ::pwritev(file_.descriptor, &left[first], count, static_cast<off_t>(written_));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    written_ += static_cast<std::size_t>(wrote);
    for (; wrote > 0; ++first) {
      iovec& piece = left[first];
      const std::size_t part = std::min(piece.iov_len, static_cast<std::size_t>(wrote));
      wrote -= static_cast<ssize_t>(part);
      piece = {static_cast<char*>(piece.iov_base) + part, piece.iov_len - part};
      if (piece.iov_len > 0) break;
    }
  }
  return true;
}

bool lies_in_file(const void* bytes) {
  const std::lock_guard lock(mappings().mutex);
  return end_of_mapping(reinterpret_cast<std::uintptr_t>(bytes)) != 0;
}

void expect_pages(const void* begin, std::size_t bytes) {
#ifdef MADV_POPULATE_READ
  const std::lock_guard lock(mappings().mutex);
  const auto [first, last] = mapped_pages(begin, bytes);
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_READ);
#endif
}

void forget_pages(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(mappings().mutex);
  const auto [first, last] = mapped_pages(begin, bytes);
  // The file keeps the values, changed ones included.
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace chorus::inline files
