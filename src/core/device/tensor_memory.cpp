#include "core/device/tensor_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

#if TORCH_VERSION_MAJOR >= 2
#define CHORUS_CONST_IN_TORCH_1
#else
#define CHORUS_CONST_IN_TORCH_1 const
#endif

namespace chorus::inline device {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kLong = 2 * kLargePage;

// Maps whole huge pages where the system has them, else small ones. Null on failure.
void* map_pages(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Unmap what lies before the first and after the last page.
  auto* first = static_cast<std::byte*>(memory);
  const std::size_t before = (kLargePage - reinterpret_cast<std::uintptr_t>(first) % kLargePage) % kLargePage;
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + bytes, kLargePage - before);
#ifdef MADV_HUGEPAGE
  ::madvise(first + before, bytes, MADV_HUGEPAGE);
#endif
  return first + before;
}

// Caches blocks of at least two huge pages.
class LongBlocks {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    const std::lock_guard lock(mutex_);
    // Accept a slightly longer block. The newest one may still be in the cache.
    const auto kept = std::find_if(kept_.rbegin(), kept_.rend(), [&](const Block& block) {
      return block.size >= size && block.size - size <= size / 8;
    });
    if (kept != kept_.rend()) {
      const Block block = *kept;
      kept_bytes_ -= block.size;
      kept_.erase(std::prev(kept.base()));
      return used(block);
    }
    void* memory = map_pages(size);
    if (memory == nullptr) {
      forget(0);
      memory = map_pages(size);
    }
    // LibTorch's wording, which is_out_of_memory recognises.
    TORCH_CHECK(memory != nullptr, "can't allocate memory: you tried to allocate ", bytes, " bytes");
    return used({memory, size});
  }

  void give_up_kept() {
    const std::lock_guard lock(mutex_);
    forget(0);
  }

  /// False if the memory is not one of these blocks.
  bool give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = taken_.find(memory);
    if (found == taken_.end()) return false;
    kept_.push_back({memory, found->second});
    kept_bytes_ += found->second;
    taken_bytes_ -= found->second;
    taken_.erase(found);
    // A round needs a few times what stays allocated between rounds; free the rest.
    constexpr std::size_t kSteps = std::size_t{128} << 20;  // for small steps, whose blocks have many lengths
    forget(std::min(most_kept_, std::max(kSteps, 3 * taken_bytes_)));
    return true;
  }

 private:
  struct Block {
    void* memory;
    std::size_t size;
  };
  void* used(const Block& block) {
    taken_[block.memory] = block.size;
    taken_bytes_ += block.size;
    return block.memory;
  }
  // Frees the oldest blocks until at most `bytes` are kept.
  void forget(std::size_t bytes) {
    while (kept_bytes_ > bytes) {
      kept_bytes_ -= kept_.front().size;
      ::munmap(kept_.front().memory, kept_.front().size);
      kept_.pop_front();
    }
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> taken_;
  std::list<Block> kept_;  // oldest first
  std::size_t kept_bytes_ = 0, taken_bytes_ = 0;
  const std::size_t most_kept_ =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 8;
};

class TensorMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) CHORUS_CONST_IN_TORCH_1 override {
    if (bytes >= kLong) {
      void* memory = blocks().take(bytes);
      return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
    }
    return from_heap(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
#endif

 private:
  static c10::Allocator& base() { return *c10::GetDefaultCPUAllocator(); }
  static LongBlocks& blocks() {
    static auto* all = new LongBlocks;  // never destroyed: tensors may outlive static objects
    return *all;
  }
  static c10::DataPtr from_heap(std::size_t bytes) {
    try {
      return base().allocate(bytes);
    } catch (const c10::Error&) {
      blocks().give_up_kept();
      return base().allocate(bytes);
    }
  }
  static void give_back(void* memory) {
    // Long blocks start at a huge page.
    const bool may_be_long = memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % kLargePage == 0;
    if (!may_be_long || !blocks().give_back(memory)) base().raw_deleter()(memory);
  }
};

}  // namespace

void prepare_tensor_memory() {
  static std::once_flag done;
  std::call_once(done, [] {
    // Memory returned to the system comes back page fault by page fault, which costs more than all other bookkeeping of
    // a simulated client.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum that glibc accepts
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    // Enough arenas for shorter blocks, so that workers do not wait for each other.
    mallopt(M_ARENA_MAX, static_cast<int>(std::thread::hardware_concurrency()) + 1);
    static auto* memory = new TensorMemory;
    c10::SetCPUAllocator(memory);
  });
}

}  // namespace chorus::inline device
