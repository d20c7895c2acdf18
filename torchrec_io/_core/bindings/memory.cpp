#include <atomic>
#include <cstdint>
#include <memory>

#include "bindings/arrays.h"
#include "memory/pool.h"
#include "memory/shared_slot.h"

namespace tio {
NumpyVector<std::uint8_t> allocate_array(std::size_t size) {
  struct PoolBlock {
    explicit PoolBlock(std::size_t bytes) : memory(pool::allocate(bytes)), size(bytes) {}
    ~PoolBlock() { pool::release(memory, size); }
    void* memory;
    std::size_t size;
  };
  auto block = std::make_unique<PoolBlock>(size);
  auto* data = static_cast<std::uint8_t*>(block->memory);
  return to_numpy(data, size, std::move(block));
}

namespace {

SharedSlot slot_of(const WritableBuffer& memory) {
  if (!SharedSlot::is_valid(writable_bytes(memory))) {
    throw nb::value_error("a slot must have at least 64 bytes and be aligned to 64 bytes");
  }
  return SharedSlot(writable_bytes(memory));
}

NumpyVector<std::uint8_t> bind_lend_slot(WritableBuffer memory, std::size_t size) {
  SharedSlot slot = slot_of(memory);
  if (size > slot.content().size()) {
    throw nb::value_error("size must not exceed the content of the slot");
  }
  auto* data = reinterpret_cast<std::uint8_t*>(slot.content().data());
  auto loan = std::make_unique<SlotLoan>(slot, owner_of(std::move(memory)));
  if (!loan->begin()) {
    throw nb::value_error("the slot is not taken: the same message was read twice");
  }
  return to_numpy(data, size, std::move(loan));
}

using Word = nb::ndarray<std::int64_t, nb::shape<1>, nb::c_contig, nb::device::cpu>;

bool bind_compare_exchange(const Word& word, std::int64_t expected, std::int64_t desired) {
  if (reinterpret_cast<std::uintptr_t>(word.data()) %
      std::atomic_ref<std::int64_t>::required_alignment) {
    throw nb::value_error("word must be aligned to its size");
  }
  return std::atomic_ref<std::int64_t>(*word.data()).compare_exchange_strong(expected, desired);
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("allocate", &allocate_array, "size"_a,
        "Return an uninitialized array of bytes, aligned to 64 bytes, from the memory pool.");
  m.def("kept_bytes", &pool::kept_bytes,
        "Return the number of bytes that the memory pool keeps for reuse.\n\n"
        "The number is 0 if another thread is using the pool.");
  m.def("compare_exchange", &bind_compare_exchange, "word"_a, "expected"_a, "desired"_a,
        "Store `desired` in a word of shared memory if it is `expected`. Return whether it was.\n\n"
        "This is atomic between processes.");

  count_forks();
  m.attr("SLOT_HEADER_BYTES") = SharedSlot::kHeaderBytes;
  m.def(
      "take_slot", [](const WritableBuffer& slot) { return slot_of(slot).take(); }, "slot"_a,
      "Take a free slot of shared memory to write to it. Return False if it is not free.");
  m.def(
      "release_slot", [](const WritableBuffer& slot) { slot_of(slot).release(); }, "slot"_a,
      "Free a taken slot whose content was not sent.");
  m.def(
      "is_slot_retired", [](const WritableBuffer& slot) { return slot_of(slot).is_retired(); },
      "slot"_a,
      "Return whether a slot is never free again because its reader forked while it had the slot.");
  m.def("lend_slot", &bind_lend_slot, "slot"_a, "size"_a,
        "Return the first `size` bytes of the content of a taken slot.\n\n"
        "The slot is free again when the last view of the array is gone from this process, unless\n"
        "the process was forked meanwhile.");
}

}  // namespace tio
