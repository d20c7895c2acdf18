// Preloaded into a process, it makes the N-th allocation of the native core fail, of any size.
// tests/faults/injection.py has the Python side.
//
// Allocations by operator new and aligned_alloc count if the core, or the standard library for it,
// calls them. nanobind is a part of the core. It ends the process if it has no memory for its
// tables of objects, so these are made large enough before. It also ends the process if Python's
// own allocator has no memory for an object or an array; such allocations do not count.
#include <execinfo.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr int kMostFrames = 16;

std::atomic<long> calls;
std::atomic<long> failing;  // 0: none

// The code of a library.
struct Code {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool has(void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
};
Code core;
Code jpeg_module;
Code png_module;
Code shim;
Code standard_library;

int find_code(dl_phdr_info* library, std::size_t, void*) {
  Code* code = nullptr;
  if (std::strstr(library->dlpi_name, "/_core.") != nullptr) code = &core;
  if (std::strstr(library->dlpi_name, "/_jpeg.") != nullptr) code = &jpeg_module;
  if (std::strstr(library->dlpi_name, "/_png.") != nullptr) code = &png_module;
  if (std::strstr(library->dlpi_name, "/allocations.") != nullptr) code = &shim;
  if (std::strstr(library->dlpi_name, "/libstdc++.") != nullptr) code = &standard_library;
  for (int i = 0; code != nullptr && i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    code->begin = library->dlpi_addr + part.p_vaddr;
    code->end = code->begin + part.p_memsz;
  }
  return 0;
}

// Whether the core allocates, itself or by a function of the standard library.
bool is_of_core() {
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  for (int i = 0; i < count; ++i) {
    if (shim.has(frames[i]) || standard_library.has(frames[i])) continue;
    return core.has(frames[i]) || jpeg_module.has(frames[i]) || png_module.has(frames[i]);
  }
  return false;
}

bool must_fail() {
  if (failing.load() == 0 || !is_of_core()) return false;
  return calls.fetch_add(1) + 1 == failing.load();
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (must_fail()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

void* check(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

extern "C" void allocations_arm(long number) {
  dl_iterate_phdr(find_code, nullptr);
  void* frame[1];
  backtrace(frame, 1);  // the first call allocates
  calls = 0;
  failing = number;
}

// Returns the number of counted allocations since the last call of allocations_arm().
extern "C" long allocations_disarm() {
  failing = 0;
  return calls;
}

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return allocate(size, alignment);
}

void* operator new(std::size_t size) { return check(allocate(size, 1)); }
void* operator new[](std::size_t size) { return check(allocate(size, 1)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return check(allocate(size, static_cast<std::size_t>(alignment)));
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
