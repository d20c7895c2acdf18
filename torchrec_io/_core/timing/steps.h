// The time that threads spend in the steps of loading, and the numbers that it is added to.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tio {

// Numbers that are counted while data is loaded. All from waiting_for_data on are nanoseconds, and
// all from reading on are steps of loading.
enum class Counter : std::uint8_t {
  records,
  bytes,
  batches,
  waiting_for_data,
  waiting_for_consumer,
  reading,
  checking,
  parsing,
  decoding,
  transform,
  copying,
};
inline constexpr std::size_t kCounters = 11;
using Counts = std::array<std::int64_t, kCounters>;

// Begins and ends a step of this thread. A step may contain others, whose time does not count for
// it.
void enter_step(Counter step);
void leave_step();

// Counts time of other threads for a step of this thread.
void add_time(Counter step, std::int64_t nanoseconds);

// A step of this thread that ends with its scope.
class StepScope {
 public:
  explicit StepScope(Counter step) { enter_step(step); }
  ~StepScope() { leave_step(); }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

  // Ends the step, and begins another one.
  void next(Counter step);
};

// Adds to numbers in shared memory. Each addition is atomic, so that nothing is lost if threads or
// processes add at the same time. The numbers are aligned.
void add_counts(std::span<std::int64_t, kCounters> numbers, const Counts& more);

// Measures the steps of a thread between start() and stop(), which that thread calls.
class Stopwatch {
 public:
  // Returns whether a stopwatch runs in this thread.
  static bool is_running();

  // Stopwatches may be nested. The time of the inner one does not count for the outer one.
  void start();
  // Returns the time of each step, the time since start() as waiting_for_data, and the time from
  // the last stop() to start() as waiting_for_consumer.
  Counts stop();

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point started_;
  Clock::time_point stopped_;  // of the epoch of the clock before the first stop
  Counts outer_{};             // the times of the stopwatch that ran before
};

}  // namespace tio
