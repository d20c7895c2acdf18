#include "allocations.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

std::atomic<const char*> name = nullptr;  // null: allocations pass, and are not counted
std::atomic<std::size_t> calls = 0;
std::atomic<std::size_t> first_failing = 0;
std::atomic<bool> all_later_fail = false;

bool must_fail() {
  if (name == nullptr) return false;
  const std::size_t number = ++calls;
  const std::size_t failing = first_failing;
  return number == failing || (all_later_fail && failing != 0 && number > failing);
}

// As for an exception that leaves a destructor or a function that is noexcept.
[[noreturn]] void name_fault() {
  std::fprintf(stderr, "%s ended the process at allocation %zu\n", name.load(), calls.load());
  std::abort();
}

void* allocate(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) noexcept {
  void* memory = nullptr;
  if (must_fail()) return nullptr;
  return posix_memalign(&memory, alignment, size == 0 ? 1 : size) == 0 ? memory : nullptr;
}

void* check(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace tio::test {

void arm_allocations(const char* of, std::size_t failing, bool is_lasting) {
  std::set_terminate(name_fault);
  calls = 0;
  first_failing = failing;
  all_later_fail = is_lasting;
  name = of;
}

std::size_t disarm_allocations() {
  name = nullptr;
  std::set_terminate(std::abort);
  return calls;
}

}  // namespace tio::test

// ---- the functions that allocate, for the whole process ----

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return allocate(size, alignment);
}

void* operator new(std::size_t size) { return check(allocate(size)); }
void* operator new[](std::size_t size) { return check(allocate(size)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return check(allocate(size, static_cast<std::size_t>(alignment)));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return check(allocate(size, static_cast<std::size_t>(alignment)));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
