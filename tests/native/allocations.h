// Makes one allocation after another of a function fail.
#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "check.h"

namespace tio::test {

// Counts allocations of any size from now on, in all threads, and makes number `failing` fail, from
// 1; 0 for none. If `is_lasting`, all later ones fail, too. `name` is printed if the process ends.
void arm_allocations(const char* name, std::size_t failing, bool is_lasting);

// Lets all allocations pass, and returns their number since they were armed.
std::size_t disarm_allocations();

// Runs a function with failing allocations. Returns nothing if it throws std::bad_alloc; other
// exceptions end the test. Adds the number of allocations to `count`.
template <class Work>
auto try_without_memory(const char* name, std::size_t failing, bool is_lasting, Work&& work,
                        std::size_t& count) {
  std::optional<decltype(work())> result;
  arm_allocations(name, failing, is_lasting);
  try {
    result.emplace(work());
  } catch (const std::bad_alloc&) {
  }
  count = disarm_allocations();
  return result;
}

// Makes each allocation of `work(state)` fail in turn: once only that one, and once all later ones,
// too. Either std::bad_alloc is thrown, or the result is the right one. Then `work` must succeed
// with the same state. Each state is made by `make()`, with memory.
template <class Make, class Work>
void fail_each_allocation(const char* name, Make&& make, Work&& work) {
  auto first = make();
  const auto expected = work(first);
  for (const bool is_lasting : {false, true}) {
    std::size_t failing = 0;
    for (std::size_t count = 1; failing <= count;) {
      const std::string where = std::string(name) + ", allocation " + std::to_string(++failing);
      auto state = make();
      const auto run = [&] { return work(state); };
      const auto result = try_without_memory(name, failing, is_lasting, run, count);
      report(!result || *result == expected, __FILE__, __LINE__, where + ": a wrong result");
      if (result) continue;
      report(work(state) == expected, __FILE__, __LINE__, where + ": a wrong result afterwards");
    }
    report(failing > 1, __FILE__, __LINE__, std::string(name) + " allocates nothing");
  }
}

// Does the same for a function that keeps nothing, or what it refers to.
template <class Work>
void fail_each_allocation(const char* name, Work&& work) {
  fail_each_allocation(name, [] { return 0; }, [&](int) { return work(); });
}

// Checks that a function returns true and allocates nothing, so that it cannot run out of memory.
template <class Work>
void check_allocates_nothing(const char* name, Work&& work) {
  arm_allocations(name, 0, false);
  const bool is_good = work();
  const std::size_t count = disarm_allocations();
  report(is_good, __FILE__, __LINE__, name);
  report(count == 0, __FILE__, __LINE__, std::string(name) + " allocates");
}

}  // namespace tio::test
