// Preloaded into a process, it makes the N-th allocation of the native core fail.
// tests/faults/injection.py has the Python side.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Smaller allocations are mostly those of nanobind, which ends the process when it has no memory
// for an object of its own or for the elements of a list.
constexpr std::size_t kSmallest = 1024;

std::atomic<long> calls;
std::atomic<long> failing;  // 0: none
std::uintptr_t begin_of_core;
std::uintptr_t end_of_core;

int find_core(dl_phdr_info* library, std::size_t, void*) {
  if (std::strstr(library->dlpi_name, "/_core.") == nullptr) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    begin_of_core = library->dlpi_addr + part.p_vaddr;
    end_of_core = begin_of_core + part.p_memsz;
  }
  return 1;
}

bool must_fail(std::size_t size, void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (failing.load() == 0 || size < kSmallest || address < begin_of_core || address >= end_of_core)
    return false;
  return calls.fetch_add(1) + 1 == failing.load();
}

void* allocate_or_throw(std::size_t size, void* caller) {
  void* memory = must_fail(size, caller) ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

extern "C" void allocations_arm(long number) {
  dl_iterate_phdr(find_core, nullptr);
  calls = 0;
  failing = number;
}

// Returns the number of allocations since the last call of allocations_arm().
extern "C" long allocations_disarm() {
  failing = 0;
  return calls;
}

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  static auto* const real =
      reinterpret_cast<void* (*)(std::size_t, std::size_t)>(dlsym(RTLD_NEXT, "aligned_alloc"));
  return must_fail(size, __builtin_return_address(0)) ? nullptr : real(alignment, size);
}

void* operator new(std::size_t size) {
  return allocate_or_throw(size, __builtin_return_address(0));
}
void* operator new[](std::size_t size) {
  return allocate_or_throw(size, __builtin_return_address(0));
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return must_fail(size, __builtin_return_address(0)) ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  void* memory = must_fail(size, __builtin_return_address(0))
                     ? nullptr
                     : std::aligned_alloc(step, (size + step - 1) / step * step);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
