#include "memory/shared_slot.h"

#include <pthread.h>
#include <unistd.h>

namespace tio {
namespace {

enum State : std::uint32_t {
  kFree = 0,
  kTaken = 1,  // being written, or on its way to the reader
  kLent = 2,
  kRetired = 3
};

std::atomic<std::uint64_t>& fork_count() {
  static std::atomic<std::uint64_t> count = 0;
  return count;
}

}  // namespace

bool SharedSlot::is_valid(MutableBytes memory) {
  return memory.size() >= kHeaderBytes &&
         reinterpret_cast<std::uintptr_t>(memory.data()) % kHeaderBytes == 0;
}

std::atomic_ref<std::uint32_t> SharedSlot::state() const {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(memory_.data()));
}

bool SharedSlot::take() {
  std::uint32_t expected = kFree;
  return state().compare_exchange_strong(expected, kTaken, std::memory_order_acquire);
}

void SharedSlot::release() { state().store(kFree, std::memory_order_release); }

bool SharedSlot::lend() {
  std::uint32_t expected = kTaken;
  return state().compare_exchange_strong(expected, kLent, std::memory_order_acquire);
}

void SharedSlot::end_loan(bool was_forked) {
  state().store(was_forked ? kRetired : kFree, std::memory_order_release);
}

bool SharedSlot::is_retired() const { return state().load(std::memory_order_acquire) == kRetired; }

void count_forks() {
  const auto count = [] { ++fork_count(); };
  // Both before and after a fork, so that a loan that another thread begins meanwhile counts as
  // forked too.
  pthread_atfork(count, count, nullptr);
}

bool SlotLoan::begin() {
  // Before lending, so that a fork meanwhile counts.
  forks_before_ = fork_count();
  if (!slot_.lend()) return false;
  borrower_ = getpid();
  return true;
}

SlotLoan::~SlotLoan() {
  // A forked child has a copy of the loan, but the slot was not lent to the child.
  if (getpid() != borrower_) return;
  slot_.end_loan(fork_count() != forks_before_);
}

}  // namespace tio
