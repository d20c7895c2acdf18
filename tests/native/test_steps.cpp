// Steps of loading: the time of each counts once, for the thread and the stopwatch that it is in.
#include <thread>
#include <vector>

#include "check.h"
#include "timing/steps.h"

namespace tio::test {
namespace {

std::int64_t of(const Counts& counts, Counter counter) {
  return counts[static_cast<std::size_t>(counter)];
}

void pass_time() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

constexpr std::int64_t kPassed = 2'000'000;

void test_inner_steps_do_not_count_for_outer_ones() {
  Stopwatch stopwatch;
  stopwatch.start();
  {
    StepScope outer(Counter::parsing);
    pass_time();
    {
      StepScope inner(Counter::reading);
      pass_time();
      inner.next(Counter::checking);
      pass_time();
    }
    pass_time();
  }
  pass_time();
  const Counts counts = stopwatch.stop();
  CHECK(of(counts, Counter::reading) >= kPassed);
  CHECK(of(counts, Counter::checking) >= kPassed);
  CHECK(of(counts, Counter::parsing) >= 2 * kPassed);
  CHECK_EQ(of(counts, Counter::decoding), 0);
  const std::int64_t steps =
      of(counts, Counter::reading) + of(counts, Counter::checking) + of(counts, Counter::parsing);
  CHECK(of(counts, Counter::waiting_for_data) >= steps + kPassed);
}

void test_time_between_runs() {
  Stopwatch stopwatch;
  stopwatch.start();
  CHECK_EQ(of(stopwatch.stop(), Counter::waiting_for_consumer), 0);
  pass_time();
  stopwatch.start();
  CHECK(of(stopwatch.stop(), Counter::waiting_for_consumer) >= kPassed);
}

void test_nested_stopwatches() {
  Stopwatch outer;
  Stopwatch inner;
  CHECK(!Stopwatch::is_running());
  outer.start();
  enter_step(Counter::transform);
  pass_time();
  inner.start();
  enter_step(Counter::reading);
  pass_time();
  leave_step();
  CHECK(of(inner.stop(), Counter::reading) >= kPassed);
  CHECK(Stopwatch::is_running());
  leave_step();
  const Counts counts = outer.stop();
  CHECK(of(counts, Counter::transform) >= kPassed);
  CHECK_EQ(of(counts, Counter::reading), 0);
  CHECK(!Stopwatch::is_running());
}

// Steps before start() do not count, and calls that do not match are harmless.
void test_calls_that_do_not_match() {
  enter_step(Counter::reading);
  pass_time();
  leave_step();
  leave_step();
  Stopwatch stopwatch;
  stopwatch.stop();
  stopwatch.start();
  CHECK_EQ(of(stopwatch.stop(), Counter::reading), 0);
  CHECK(!Stopwatch::is_running());
}

// Steps that are nested too deep count for one that they are in.
void test_many_nested_steps() {
  Stopwatch stopwatch;
  stopwatch.start();
  {
    StepScope outer(Counter::parsing);
    for (int i = 0; i < 1000; ++i) enter_step(Counter::reading);
    {
      StepScope inner(Counter::decoding);
      inner.next(Counter::checking);
      pass_time();
    }
    for (int i = 0; i < 1000; ++i) leave_step();
    pass_time();
  }
  const Counts counts = stopwatch.stop();
  CHECK(of(counts, Counter::reading) >= kPassed);
  CHECK(of(counts, Counter::parsing) >= kPassed);
  CHECK_EQ(of(counts, Counter::decoding) + of(counts, Counter::checking), 0);
}

void test_threads_have_steps_of_their_own() {
  Stopwatch stopwatch;
  stopwatch.start();
  std::thread([] {
    CHECK(!Stopwatch::is_running());
    StepScope step(Counter::reading);
    pass_time();
  }).join();
  CHECK_EQ(of(stopwatch.stop(), Counter::reading), 0);
}

void test_additions_of_many_threads() {
  Counts numbers{};
  Counts more{};
  more[0] = 1;
  more[kCounters - 1] = -3;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 10000; ++repeat) add_counts(numbers, more);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(numbers[0], 40000);
  CHECK_EQ(numbers[1], 0);
  CHECK_EQ(numbers[kCounters - 1], -120000);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_inner_steps_do_not_count_for_outer_ones();
  test_time_between_runs();
  test_nested_stopwatches();
  test_calls_that_do_not_match();
  test_many_nested_steps();
  test_threads_have_steps_of_their_own();
  test_additions_of_many_threads();
  return finish();
}
