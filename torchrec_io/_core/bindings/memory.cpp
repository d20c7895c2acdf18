// Bindings of bytes in memory.
#include <nanobind/nanobind.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/arrays.h"
#include "bindings/parts.h"

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
constexpr std::uint32_t kTaken = 1;  // written, or under way
constexpr std::uint32_t kLent = 2;
constexpr std::uint32_t kKept = 3;  // a forked child may read on in it: never free again

// How often this process forked, or began to. A child that is forked while a slot is lent has the
// views of it, too, and nobody knows for how long.
std::atomic<std::uint64_t>& forks() {
  static std::atomic<std::uint64_t> count = 0;
  return count;
}

void count_fork() { ++forks(); }

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

bool bind_is_kept_slot(const WritableBuffer& slot) {
  return turn_of(slot).load(std::memory_order_acquire) == kKept;
}

NumpyVector<std::uint8_t> bind_lend_slot(WritableBuffer slot, std::size_t size) {
  struct Loan {
    WritableBuffer slot;
    pid_t borrower;
    std::uint64_t forks_before;
    ~Loan() {
      // A forked child has the array, too, but it is not the one that the slot was lent to.
      if (getpid() != borrower) return;
      const std::uint32_t now = forks() == forks_before ? kFree : kKept;
      turn_of(slot).store(now, std::memory_order_release);
    }
  };
  const std::uint64_t forks_before = forks();
  const std::atomic_ref<std::uint32_t> turn = turn_of(slot);
  if (size > slot.size() - kSlotHead) throw nb::value_error("so much is not in the slot");
  std::uint32_t expected = kTaken;
  if (!turn.compare_exchange_strong(expected, kLent, std::memory_order_acquire)) {
    throw nb::value_error("what is in the slot was lent before: a message was read twice");
  }
  std::uint8_t* data = slot.data() + kSlotHead;
  std::unique_ptr<Loan> loan(new Loan{std::move(slot), getpid(), forks_before});
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
  m.def("is_kept_slot", &bind_is_kept_slot, "slot"_a,
        "Whether a slot stays in use for good: its borrower forked while it had it.");
  // Both before and after it: so that what another thread borrows meanwhile counts as forked, too.
  pthread_atfork(&count_fork, &count_fork, nullptr);
  m.def("lend_slot", &bind_lend_slot, "slot"_a, "size"_a,
        "What was written to a slot that was taken, from byte 64 on. The slot is free again when\n"
        "the last view of that is gone from this process, unless it was forked meanwhile.");
}

}  // namespace tio
