// Sharing out work among threads: each item once, exceptions, several callers, forked children.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "threads/run_each.h"

namespace tio::test {
namespace {

bool does_each_once(std::size_t count, std::size_t threads) {
  std::vector<std::atomic<int>> calls(count);
  run_each(count, threads, [&](std::size_t item) { ++calls[item]; });
  for (const auto& number : calls) {
    if (number != 1) return false;
  }
  return true;
}

void test_each_item_once() {
  for (const std::size_t count : {0, 1, 2, 3, 100, 1000}) {
    for (const std::size_t threads : {0, 1, 2, 7}) CHECK(does_each_once(count, threads));
  }
}

void test_callers_at_the_same_time() {
  std::vector<std::thread> callers;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&good] {
      for (int round = 0; round < 50; ++round) good += does_each_once(64, 4) ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(good.load(), 400);
}

void test_exceptions() {
  for (const std::size_t threads : {1, 4}) {
    std::atomic<int> calls = 0;
    std::string message;
    try {
      run_each(100'000, threads, [&calls](std::size_t item) {
        ++calls;
        if (item == 3) throw std::runtime_error("item 3");
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    CHECK_EQ(message, "item 3");
    CHECK(calls < 100'000);
    CHECK(does_each_once(100, threads));
  }
}

void test_forked_children_have_threads_of_their_own() {
  CHECK(does_each_once(100, 4));
  const pid_t child = fork();
  if (child == 0) _exit(does_each_once(100, 4) ? 0 : 1);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_each_item_once();
  test_callers_at_the_same_time();
  test_exceptions();
  test_forked_children_have_threads_of_their_own();
  return finish();
}
