#include "records/pool.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace tio::pool {
namespace {

constexpr std::size_t kAlignment = 64;
// Smaller blocks malloc keeps by itself.
constexpr std::size_t kSmallest = std::size_t{1} << 16;
// A few batches of the size in use: what is kept was in use a moment ago.
constexpr std::size_t kMostKept = std::size_t{1} << 27;

struct Pool {
  std::mutex mutex;
  std::map<std::size_t, std::vector<void*>> free;  // by size
  std::size_t kept = 0;
};

// Never destroyed: arrays can outlive every static object.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

// Rounded up so that batches of nearly one size can serve each other; at most an eighth is wasted.
std::size_t rounded(std::size_t size) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(std::max<std::size_t>(size, 1)) / 8);
  return (size + step - 1) / step * step;
}

}  // namespace

// Locks are only tried: a process forked while another thread held the lock finds it held for ever.

void* take(std::size_t size) {
  if (size > std::numeric_limits<std::ptrdiff_t>::max() / 2) throw std::bad_alloc();
  size = rounded(size);
  if (size >= kSmallest) {
    const std::unique_lock lock(pool().mutex, std::try_to_lock);
    if (lock.owns_lock()) {
      const auto found = pool().free.find(size);
      if (found != pool().free.end() && !found->second.empty()) {
        void* memory = found->second.back();
        found->second.pop_back();
        pool().kept -= size;
        return memory;
      }
    }
  }
  void* memory = std::aligned_alloc(kAlignment, std::max(size, kAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory, std::size_t size) noexcept {
  size = rounded(size);
  if (size >= kSmallest && size <= kMostKept) {
    const std::unique_lock lock(pool().mutex, std::try_to_lock);
    if (lock.owns_lock() && pool().kept + size <= kMostKept) {
      try {
        pool().free[size].push_back(memory);
        pool().kept += size;
        return;
      } catch (const std::bad_alloc&) {
        // No room even to note it down: free it.
      }
    }
  }
  std::free(memory);
}

std::size_t kept_bytes() {
  const std::unique_lock lock(pool().mutex, std::try_to_lock);
  return lock.owns_lock() ? pool().kept : 0;
}

}  // namespace tio::pool
