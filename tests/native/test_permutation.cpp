// Orders: that they are permutations, how far a window moves a value, and that they never change.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "permutation.h"

namespace tio::test {
namespace {

template <class Order>
bool is_bijection(Order&& order, std::uint64_t size) {
  std::vector<bool> seen(size);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t value = order(i);
    if (value >= size || seen[value]) return false;
    seen[value] = true;
  }
  return true;
}

void test_every_small_size() {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    for (std::uint64_t key = 0; key < 3; ++key) {
      CHECK_EQ_IN(is_bijection(Permutation(size, key), size), true, size);
    }
  }
  for (const std::uint64_t size : {1023, 1024, 1025, 65537, 200000}) {
    CHECK_EQ_IN(is_bijection(Permutation(size, 42), size), true, size);
  }
}

void test_huge_sizes() {
  for (const std::uint64_t size : {std::uint64_t{10'000'000'000}, (std::uint64_t{1} << 32) + 1,
                                   std::uint64_t{1} << 62, (std::uint64_t{1} << 63) - 1}) {
    const Permutation order(size, 7);
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      values.push_back(order(i));
      values.push_back(order(size - 1 - i));
    }
    std::sort(values.begin(), values.end());
    CHECK(values.back() < size);
    CHECK(std::adjacent_find(values.begin(), values.end()) == values.end());
    CHECK(values.front() < size / 50);  // they are spread over the whole range
    CHECK(values.back() > size - size / 50);
  }
}

// Over many keys each order of a few values must come about equally often.
void test_small_sizes_are_uniform() {
  constexpr int kKeys = 24000;
  std::vector<int> seen(256);  // by the four values, two bits each
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Permutation order(4, key);
    std::size_t number = 0;
    for (std::uint64_t i = 0; i < 4; ++i) number = number << 2 | order(i);
    ++seen[number];
  }
  const int kinds =
      static_cast<int>(std::count_if(seen.begin(), seen.end(), [](int n) { return n; }));
  CHECK_EQ(kinds, 24);
  for (const int count : seen) {
    // 1,000 each is expected, with a standard deviation of 31.
    if (count != 0) CHECK_EQ_IN(std::abs(count - 1000) < 170, true, count);
  }
}

void check_window(std::uint64_t size, std::uint64_t window, std::uint64_t key) {
  const std::string note = std::to_string(size) + " window " + std::to_string(window);
  WindowPermutation order(size, window, key);
  CHECK_EQ_IN(is_bijection(order, size), true, note);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t value = order(i);
    const std::uint64_t moved = value > i ? value - i : i - value;
    if (!CHECK_EQ_IN(moved <= window, true, note)) return;
  }
}

void test_windows() {
  for (std::uint64_t size = 1; size <= 120; ++size) {
    for (std::uint64_t window = 1; window <= size + 2; ++window) check_window(size, window, size);
  }
  for (const std::uint64_t window : {1, 2, 3, 100, 1000, 4999, 5000, 5001, 100000}) {
    check_window(5000, window, 3);
  }
  check_window(100000, 4096, 11);
}

// Asking in any order gives the same answers as asking in turn.
void test_windows_keep_no_history() {
  WindowPermutation in_turn(1000, 64, 5);
  WindowPermutation jumping(1000, 64, 5);
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t i = 0; i < 1000; ++i) wanted.push_back(in_turn(i));
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t position = i * 367 % 1000;
    CHECK_EQ(jumping(position), wanted[position]);
  }
}

void test_huge_windows() {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 63) - 1;
  for (const std::uint64_t window : {std::uint64_t{1} << 40, kSize / 2, kSize - 1, kSize}) {
    WindowPermutation order(kSize, window, 9);
    for (std::uint64_t i = 0; i < 100; ++i) {
      for (const std::uint64_t position : {i, kSize / 2 + i, kSize - 1 - i}) {
        const std::uint64_t value = order(position);
        CHECK(value < kSize);
        CHECK((value > position ? value - position : position - value) <= window);
      }
    }
  }
}

template <class Order>
std::vector<std::uint64_t> first_values(Order order, std::uint64_t count) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(order(i));
  return values;
}

// A saved training state means nothing if these ever change: a new order needs a new name.
void test_golden_values() {
  using Values = std::vector<std::uint64_t>;
  CHECK_EQ(mix(0), 0xe220a8397b1dcdafU);  // SplitMix64's published first output for seed 0
  CHECK_EQ(first_values(Permutation(10, 0), 10), (Values{6, 8, 0, 2, 3, 4, 5, 1, 9, 7}));
  CHECK_EQ(first_values(Permutation(1000, 42), 8),
           (Values{399, 822, 825, 342, 237, 770, 520, 166}));
  CHECK_EQ(first_values(Permutation(10'000'000'000, 1), 4),
           (Values{6978470520, 7557500994, 1212911626, 5365305749}));
  CHECK_EQ(first_values(WindowPermutation(20, 6, 0), 20),
           (Values{0, 2, 3, 4, 5, 1, 8, 7, 11, 6, 15, 10, 9, 13, 14, 12, 17, 19, 16, 18}));
  CHECK_EQ(first_values(WindowPermutation(1'000'000, 1000, 42), 8),
           (Values{41, 33, 413, 105, 60, 347, 317, 179}));
  CHECK_EQ(first_values(WindowPermutation(10, 10, 3), 10), (Values{1, 0, 9, 5, 4, 7, 6, 3, 8, 2}));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_every_small_size();
  test_huge_sizes();
  test_small_sizes_are_uniform();
  test_windows();
  test_windows_keep_no_history();
  test_huge_windows();
  test_golden_values();
  return finish();
}
