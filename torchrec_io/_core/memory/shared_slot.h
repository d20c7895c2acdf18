// Memory that two processes share to pass batches: one writes to it and the other reads, in turns.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "wire/bytes.h"

namespace tio {

// A slot of shared memory. Its header holds the state; the content after it is aligned like an
// arena. New memory, which is all zeros, is a free slot.
class SharedSlot {
 public:
  static constexpr std::size_t kHeaderBytes = 64;

  // Whether the memory is aligned and large enough for a slot.
  static bool is_valid(MutableBytes memory);

  explicit SharedSlot(MutableBytes memory) : memory_(memory) {}

  // Content bytes.
  MutableBytes content() const { return memory_.subspan(kHeaderBytes); }

  // Takes a free slot to write to it. Returns false if it is not free.
  bool take();

  // Frees a taken slot whose content was not sent.
  void release();

  // Lends the content of a taken slot to a reader. Returns false if it is not taken, as when a
  // message is read twice.
  bool lend();

  // Ends a loan. If this process was forked during the loan, the child may still read the content,
  // so the slot is retired and never free again.
  void end_loan(bool was_forked);

  bool is_retired() const;

 private:
  std::atomic_ref<std::uint32_t> state() const;

  MutableBytes memory_;
};

// Counts the forks of this process. Must be called once before any loan.
void count_forks();

// The time during which a reader uses the content of a slot.
class SlotLoan {
 public:
  // `owner` keeps the memory of the slot alive.
  SlotLoan(SharedSlot slot, Owner owner) : slot_(slot), owner_(std::move(owner)) {}
  ~SlotLoan();
  SlotLoan(const SlotLoan&) = delete;
  SlotLoan& operator=(const SlotLoan&) = delete;

  // Lends the slot to this process until the loan is destroyed; see SharedSlot::lend. This is not
  // done by the constructor, because a slot must not be lent before its loan has memory.
  bool begin();

 private:
  SharedSlot slot_;
  pid_t borrower_ = -1;  // -1: not lent
  std::uint64_t forks_before_ = 0;
  Owner owner_;
};

}  // namespace tio
