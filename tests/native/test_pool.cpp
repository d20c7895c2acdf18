// The memory pool: blocks are aligned, large enough, and never allocated twice.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>

#include "check.h"
#include "memory/pool.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace tio::test {
namespace {

void test_sizes() {
  for (const std::size_t size : {0, 1, 63, 64, 65, 65535, 65536, 65537, 100000, 9000000}) {
    void* memory = pool::allocate(size);
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    std::memset(memory, 1, size);  // a sanitizer detects a block that is too small
    pool::release(memory, size);
    void* again = pool::allocate(size);
    std::memset(again, 2, size);
    pool::release(again, size);
  }
}

// A block of similar size is reused, and is large enough.
void test_reuse() {
  constexpr std::size_t kSize = 1000000;
  for (std::size_t size = kSize; size < kSize + 200000; size += 777) {
    void* memory = pool::allocate(size);
    std::memset(memory, 3, size);
    pool::release(memory, size);
  }
}

void test_never_twice() {
  constexpr std::size_t kSize = 200000;
  std::vector<void*> held;
  for (int i = 0; i < 20; ++i) held.push_back(pool::allocate(kSize));
  std::sort(held.begin(), held.end());
  CHECK(std::adjacent_find(held.begin(), held.end()) == held.end());
  for (void* memory : held) pool::release(memory, kSize);
  CHECK(pool::kept_bytes() > 0);
}

void test_bound() {
  constexpr std::size_t kSize = 10000000;
  std::vector<void*> held;
  for (int i = 0; i < 40; ++i) held.push_back(pool::allocate(kSize));
  for (void* memory : held) pool::release(memory, kSize);
  CHECK(pool::kept_bytes() <= std::size_t{1} << 27);
}

// Blocks of a dataset that was read before do not keep those of the present one from being kept.
void test_sizes_that_are_not_used_make_room() {
  constexpr std::size_t kOld = std::size_t{10} << 20, kNew = std::size_t{3} << 20;
  std::vector<void*> held;
  for (int i = 0; i < 20; ++i) held.push_back(pool::allocate(kOld));
  for (void* memory : held) pool::release(memory, kOld);
  held.clear();
  for (int i = 0; i < 40; ++i) held.push_back(pool::allocate(kNew));
  for (void* memory : held) pool::release(memory, kNew);
  const std::size_t before = pool::kept_bytes();
  CHECK(before <= std::size_t{1} << 27);
  for (void*& memory : held) memory = pool::allocate(kNew);
  CHECK_EQ(before - pool::kept_bytes(), 40 * kNew);
  for (void* memory : held) pool::release(memory, kNew);
}

// A loader fills one block while another is in use, also if both are larger than what is kept when
// nothing is in use.
void test_large_blocks_take_turns() {
  constexpr std::size_t kSize = std::size_t{3} << 26;
  void* const first = pool::allocate(kSize);
  void* second = pool::allocate(kSize);
  pool::release(first, kSize);
  CHECK(pool::kept_bytes() >= kSize);
  void* const third = pool::allocate(kSize);
  CHECK(third == first);
  pool::release(second, kSize);
  second = pool::allocate(kSize);
  pool::release(third, kSize);
  pool::release(second, kSize);
  CHECK(pool::kept_bytes() <= std::size_t{1} << 27);
}

// Most of what was in use at the same time is returned to the system.
void test_bound_while_blocks_are_in_use() {
  constexpr std::size_t kSize = std::size_t{1} << 27;
  std::vector<void*> held;
  for (int i = 0; i < 12; ++i) held.push_back(pool::allocate(kSize));
  for (int i = 0; i < 6; ++i) {
    pool::release(held.back(), kSize);
    held.pop_back();
  }
  CHECK(pool::kept_bytes() <= 3 * kSize);
  for (void* memory : held) pool::release(memory, kSize);
  CHECK(pool::kept_bytes() <= kSize);
}

// Sanitizers report a use of kept memory, as of freed memory.
void test_kept_memory_is_forbidden() {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::size_t kSize = 300000;
  void* memory = pool::allocate(kSize);
  pool::release(memory, kSize);
  CHECK(__asan_region_is_poisoned(memory, kSize) == memory);
  CHECK(__asan_address_is_poisoned(static_cast<char*>(memory) + kSize - 1) != 0);
  CHECK(pool::allocate(kSize) == memory);
  CHECK(__asan_region_is_poisoned(memory, kSize) == nullptr);
  pool::release(memory, kSize);
#endif
}

void test_threads() {
  const auto work = [] {
    for (std::size_t i = 0; i < 2000; ++i) {
      const std::size_t size = 65536 + i % 7 * 10000;
      auto* memory = static_cast<unsigned char*>(pool::allocate(size));
      memory[0] = memory[size - 1] = static_cast<unsigned char>(i);
      std::this_thread::yield();
      CHECK_EQ(memory[size - 1], static_cast<unsigned char>(i));
      pool::release(memory, size);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_sizes();
  test_reuse();
  test_never_twice();
  test_bound();
  test_sizes_that_are_not_used_make_room();
  test_large_blocks_take_turns();
  test_bound_while_blocks_are_in_use();
  test_kept_memory_is_forbidden();
  test_threads();
  return finish();
}
