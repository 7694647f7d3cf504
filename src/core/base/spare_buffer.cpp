#include "core/base/spare_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <utility>

namespace chorus::inline base {
namespace {

constexpr std::size_t kLeast = std::size_t{32} << 20U;  // smaller ones are malloc's business

struct Spare {
  std::mutex mutex;
  std::string buffer;
};

Spare& spare() {
  static Spare* only = new Spare;  // never destroyed: buffers may come back while the program ends
  return *only;
}

// Fewer page faults while it is filled for the first time.
void prefer_large_pages(std::string& bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20U;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage, last = (begin + bytes.capacity()) / kPage * kPage;
  if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace

std::string take_spare_buffer(std::size_t capacity) {
  std::string bytes;
  {
    const std::lock_guard lock(spare().mutex);
    const std::size_t there = spare().buffer.capacity();
    if (capacity >= kLeast && there >= capacity && there - capacity <= capacity / 8) bytes.swap(spare().buffer);
  }
  bytes.clear();
  if (bytes.capacity() < capacity) {
    bytes.reserve(capacity);
    prefer_large_pages(bytes);
  }
  return bytes;
}

std::shared_ptr<const std::string> returning_buffer(std::string bytes) {
  if (bytes.capacity() < kLeast) return std::make_shared<const std::string>(std::move(bytes));
  return {new std::string(std::move(bytes)), [](std::string* held) {
            std::string old;  // freed without the lock
            {
              const std::lock_guard lock(spare().mutex);
              old.swap(spare().buffer);
              spare().buffer.swap(*held);
            }
            delete held;
          }};
}

}  // namespace chorus::inline base
