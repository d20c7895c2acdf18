// Bindings of bytes in memory.
#include <nanobind/nanobind.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "module_arrays.h"
#include "module_parts.h"

namespace tio {
namespace {

// A map outlives the descriptor it was made from, so none has to stay open for it.
nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bind_map_file(int descriptor,
                                                                      std::size_t size) {
  struct Mapped {
    void* memory;
    std::size_t size;
    ~Mapped() { munmap(memory, size); }
  };
  if (size == 0) throw nb::value_error("size must be positive");
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
  std::unique_ptr<Mapped> mapped(new Mapped{memory, size});
  nb::capsule owner(mapped.release(), [](void* p) noexcept { delete static_cast<Mapped*>(p); });
  return {memory, {size}, owner};
}

// ---- memory that two processes share, one writing and one reading in turns ----

// The first word of a slot says whose turn it is. What is lent starts behind it, aligned as arenas
// are.
constexpr std::size_t kSlotHead = 64;
constexpr std::uint32_t kFree = 0;
constexpr std::uint32_t kTaken = 1;

std::atomic_ref<std::uint32_t> turn_of(const WritableBuffer& slot) {
  if (slot.size() < kSlotHead || reinterpret_cast<std::uintptr_t>(slot.data()) % kSlotHead != 0) {
    throw nb::value_error("a slot is aligned, and of 64 bytes at least");
  }
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(slot.data()));
}

bool bind_take_slot(const WritableBuffer& slot) {
  std::uint32_t expected = kFree;
  return turn_of(slot).compare_exchange_strong(expected, kTaken, std::memory_order_acquire);
}

NumpyVector<std::uint8_t> bind_lend_slot(WritableBuffer slot, std::size_t size) {
  struct Loan {
    WritableBuffer slot;
    pid_t borrower;
    ~Loan() {
      // A forked child has the array, too, but it is not the one that the slot was lent to.
      if (getpid() == borrower) turn_of(slot).store(kFree, std::memory_order_release);
    }
  };
  turn_of(slot);  // checks it
  if (size > slot.size() - kSlotHead) throw nb::value_error("so much is not in the slot");
  std::uint8_t* data = slot.data() + kSlotHead;
  std::unique_ptr<Loan> loan(new Loan{std::move(slot), getpid()});
  nb::capsule owner(loan.release(), [](void* p) noexcept { delete static_cast<Loan*>(p); });
  return {data, {size}, owner};
}

}  // namespace

void bind_memory(nb::module_& m) {
  using namespace nb::literals;
  m.def("map_file", &bind_map_file, "descriptor"_a, "size"_a,
        "The first bytes of an open file, mapped: read-only, and valid once it is closed.");
  m.def("take_slot", &bind_take_slot, "slot"_a,
        "Takes a piece of shared memory to write to it; False while what is in it is lent.");
  m.def("lend_slot", &bind_lend_slot, "slot"_a, "size"_a,
        "What was written to a slot that was taken, from byte 64 on. The slot is free again when\n"
        "the last view of that is gone from this process.");
}

}  // namespace tio
