#include "timing/steps.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>
#include <utility>

namespace tio {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// The steps of a thread. They are measured whether or not a stopwatch runs. No memory is allocated:
// the process would end if there is none to register a destructor for the end of a thread.
struct ThreadSteps {
  // Steps that are nested deeper count for the innermost one of these.
  static constexpr std::size_t kMostNested = 64;

  Counts spent{};
  std::array<Counter, kMostNested> entered{};  // the innermost step is the last
  std::size_t depth = 0;                       // number of steps, also of those that are too deep
  Clock::time_point since;                     // the time up to here is counted
  int stopwatches = 0;

  // Counts the time since the last call for the innermost step.
  Clock::time_point count() {
    const Clock::time_point now = Clock::now();
    if (depth != 0) {
      const Counter innermost = entered[std::min(depth, kMostNested) - 1];
      spent[static_cast<std::size_t>(innermost)] += nanoseconds(now - since);
    }
    since = now;
    return now;
  }
};
static_assert(std::is_trivially_destructible_v<ThreadSteps>);

ThreadSteps& this_thread() {
  thread_local ThreadSteps steps;
  return steps;
}

}  // namespace

void enter_step(Counter step) {
  ThreadSteps& steps = this_thread();
  steps.count();
  if (steps.depth < ThreadSteps::kMostNested) steps.entered[steps.depth] = step;
  ++steps.depth;
}

void leave_step() {
  ThreadSteps& steps = this_thread();
  steps.count();
  if (steps.depth != 0) --steps.depth;
}

void add_time(Counter step, std::int64_t nanoseconds) {
  this_thread().spent[static_cast<std::size_t>(step)] += nanoseconds;
}

void StepScope::next(Counter step) {
  ThreadSteps& steps = this_thread();
  steps.count();
  if (steps.depth <= ThreadSteps::kMostNested) steps.entered[steps.depth - 1] = step;
}

void add_counts(std::span<std::int64_t, kCounters> numbers, const Counts& more) {
  for (std::size_t i = 0; i < kCounters; ++i) {
    if (more[i] != 0) {
      std::atomic_ref<std::int64_t>(numbers[i]).fetch_add(more[i], std::memory_order_relaxed);
    }
  }
}

bool Stopwatch::is_running() { return this_thread().stopwatches > 0; }

void Stopwatch::start() {
  ThreadSteps& steps = this_thread();
  started_ = steps.count();
  outer_ = std::exchange(steps.spent, {});
  ++steps.stopwatches;
}

Counts Stopwatch::stop() {
  ThreadSteps& steps = this_thread();
  const Clock::time_point now = steps.count();
  Counts counts = std::exchange(steps.spent, outer_);
  if (steps.stopwatches > 0) --steps.stopwatches;
  counts[static_cast<std::size_t>(Counter::waiting_for_data)] = nanoseconds(now - started_);
  if (stopped_ != Clock::time_point{}) {
    counts[static_cast<std::size_t>(Counter::waiting_for_consumer)] =
        nanoseconds(started_ - stopped_);
  }
  stopped_ = now;
  return counts;
}

}  // namespace tio
