#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace chorus::inline base {

/// An allocator for long vectors: huge pages where the system has them (100 million floats span 100,000 small pages,
/// each a page fault), and no zero-initialization. Short vectors use operator new.
template <typename T>
class LargeAllocator {
 public:
  using value_type = T;
  static_assert(std::is_trivially_copyable_v<T>, "elements are left uninitialized");

  LargeAllocator() = default;
  template <typename U>
  explicit LargeAllocator(const LargeAllocator<U>&) {}

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T) / 2) throw std::bad_array_new_length();
    const std::size_t bytes = (count * sizeof(T) + kPage - 1) / kPage * kPage;
    if (!is_large(count)) return static_cast<T*>(::operator new(count * sizeof(T)));
    void* memory = std::aligned_alloc(kPage, bytes);
    if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) { is_large(count) ? std::free(memory) : ::operator delete(memory); }

  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }

  bool operator==(const LargeAllocator&) const { return true; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static bool is_large(std::size_t count) { return count >= 2 * kPage / sizeof(T); }
};

/// New elements are uninitialized; use `LargeVector<float> x(n, 0.0F)` for zeros.
template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace chorus::inline base
