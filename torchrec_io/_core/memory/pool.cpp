#include "memory/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)  // GCC; Clang has a feature of this name
#define TIO_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TIO_ADDRESS_SANITIZER
#endif
#endif
#ifdef TIO_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace tio::pool {
namespace {

// Make ASan report uses of kept memory, as of freed memory.
#ifdef TIO_ADDRESS_SANITIZER
void forbid(void* memory, std::size_t size) { __asan_poison_memory_region(memory, size); }
void permit(void* memory, std::size_t size) { __asan_unpoison_memory_region(memory, size); }
#else
void forbid(void*, std::size_t) {}
void permit(void*, std::size_t) {}
#endif

constexpr std::size_t kAlignment = 64;
[[maybe_unused]] constexpr std::size_t kHugePage = std::size_t{1} << 21;
// malloc itself keeps smaller blocks.
constexpr std::size_t kMinKeptBlock = std::size_t{1} << 16;
// Room for a few batches. While larger ones are in use, two more of them are kept: a loader fills
// one while the one before is in use.
constexpr std::size_t kMaxKept = std::size_t{1} << 27;

// Blocks of one size that are kept.
struct Kept {
  std::vector<void*> blocks;
  std::uint64_t last_use = 0;  // of a block of this size; later uses have larger numbers
};

struct Pool {
  std::mutex mutex;
  std::map<std::size_t, Kept> free;  // by size
  std::size_t kept = 0;              // bytes of all of them
  std::uint64_t uses = 0;

  std::atomic<std::size_t> used = 0;     // of blocks that could be kept
  std::atomic<std::size_t> largest = 0;  // of the blocks in use, or of some before

  void count(std::size_t size) {
    used += size;
    if (size > largest) largest = size;  // a race makes it too small, which only frees more
  }
  void discount(std::size_t size) {
    if ((used -= size) == 0) largest = 0;
  }
  std::size_t most_kept() const { return kMaxKept + std::min<std::size_t>(used, 2 * largest); }

  // Returns a kept block, or null. Notes that its size is used.
  void* take(std::size_t size) {
    const auto found = free.find(size);
    if (found == free.end()) return nullptr;
    found->second.last_use = ++uses;
    return pop(found->second, size);
  }

  // Removes a kept block and returns it; null if there is none of its size.
  void* pop(Kept& of_size, std::size_t size) {
    if (of_size.blocks.empty()) return nullptr;
    void* memory = of_size.blocks.back();
    of_size.blocks.pop_back();
    kept -= size;
    permit(memory, size);
    return memory;
  }

  // Returns false if there is no memory to record the block.
  bool keep(void* memory, std::size_t size) noexcept {
    try {
      Kept& of_size = free[size];
      of_size.blocks.push_back(memory);
      of_size.last_use = ++uses;
    } catch (const std::bad_alloc&) {
      return false;
    }
    kept += size;
    forbid(memory, size);
    return true;
  }

  // Frees blocks until at most `most` bytes are kept: first those of the sizes that were not used
  // for the longest time, such as of a dataset that was read before this one.
  void trim(std::size_t most) noexcept {
    while (kept > most) {
      const auto oldest =
          std::ranges::min_element(free, {}, [](const auto& item) { return item.second.last_use; });
      if (void* memory = pop(oldest->second, oldest->first)) {
        std::free(memory);
      } else {
        free.erase(oldest);
      }
    }
  }
};

// Never destroyed, because arrays can outlive every static object.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

// Rounds up, so that batches of similar size can reuse each other's memory. Wastes at most an
// eighth.
std::size_t round_up(std::size_t size) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(std::max<std::size_t>(size, 1)) / 8);
  return (size + step - 1) / step * step;
}

// Returns new memory, or null. Large blocks get huge pages where the system has them: filling one
// the first time then takes a third of the time.
void* take_memory(std::size_t size) {
#ifdef MADV_HUGEPAGE
  if (size >= kHugePage) {
    // The last part of a huge page keeps small pages: it is not advised.
    void* memory = std::aligned_alloc(kHugePage, (size + kHugePage - 1) / kHugePage * kHugePage);
    if (memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);  // usable without, too
    return memory;
  }
#endif
  return std::aligned_alloc(kAlignment, std::max(size, kAlignment));
}

}  // namespace

// Never wait for the lock: in a process that was forked while another thread held it, it stays
// locked forever.

void* allocate(std::size_t size) {
  if (size > std::numeric_limits<std::ptrdiff_t>::max() / 2) throw std::bad_alloc();
  size = round_up(size);
  if (size >= kMinKeptBlock) {
    const std::unique_lock lock(pool().mutex, std::try_to_lock);
    if (lock.owns_lock()) {
      if (void* memory = pool().take(size)) {
        pool().count(size);
        return memory;
      }
    }
  }
  void* memory = take_memory(size);
  if (memory == nullptr) throw std::bad_alloc();
  if (size >= kMinKeptBlock) pool().count(size);
  return memory;
}

void release(void* memory, std::size_t size) noexcept {
  size = round_up(size);
  if (size >= kMinKeptBlock) {
    pool().discount(size);
    const std::unique_lock lock(pool().mutex, std::try_to_lock);
    if (lock.owns_lock()) {
      const std::size_t most = pool().most_kept();
      const bool is_kept = size <= most && pool().keep(memory, size);
      pool().trim(most);
      if (is_kept) return;
    }
  }
  std::free(memory);
}

std::size_t kept_bytes() {
  const std::unique_lock lock(pool().mutex, std::try_to_lock);
  return lock.owns_lock() ? pool().kept : 0;
}

}  // namespace tio::pool
