// Orders: they are permutations, windows limit how far values move, blocks stay together, and the
// values never change.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "check.h"
#include "order/lane_permutation.h"
#include "order/permutation.h"

namespace tio::test {
namespace {

using Values = std::vector<std::uint64_t>;

Values count_from(std::uint64_t begin, std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), begin);
  return values;
}

template <class Order>
Values values_at(Order order, Values positions) {
  order.apply(positions);
  return positions;
}

template <class Order>
Values first_values(const Order& order, std::size_t count) {
  return values_at(order, count_from(0, count));
}

template <class Order>
bool is_bijection(const Order& order, std::size_t size) {
  Values values = first_values(order, size);
  std::sort(values.begin(), values.end());
  return values == count_from(0, size);
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

// Over many keys, all orders of a few values are about equally frequent.
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
  const WindowPermutation order(size, window, key);
  CHECK_EQ_IN(is_bijection(order, size), true, note);
  const Values values = first_values(order, size);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t moved = values[i] > i ? values[i] - i : i - values[i];
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

// A value does not depend on the positions computed before or together with it.
template <class Order>
void check_no_history(const Order& order, std::uint64_t size) {
  const Values wanted = first_values(order, size);
  Values positions(size);
  Values shuffled(size);
  for (std::uint64_t i = 0; i < size; ++i) {
    positions[i] = i * 367 % size;
    shuffled[i] = wanted[positions[i]];
  }
  for (const std::size_t at_once : {1, 2, 3, 4, 5, 15, 16, 17, 63, 255, 256, 257, 600, 1000}) {
    Order asked = order;
    Values values = positions;
    for (std::size_t at = 0; at < values.size(); at += at_once) {
      const std::size_t count = std::min(at_once, values.size() - at);
      asked.apply(std::span(values).subspan(at, count));
    }
    CHECK_EQ_IN(values, shuffled, at_once);
  }
}

// Positions 0 and 256 have the same remainder, so they are confused if anything is.
void test_repeated_positions() {
  const Permutation order(1000, 5);
  for (const std::size_t count : {0, 1, 255, 256, 257, 2000}) {
    Values positions(count);
    for (std::size_t i = 0; i < count; ++i) positions[i] = i * i % 7 * 128;
    const Values wanted = values_at(order, positions);
    order.apply_repeated(positions);
    CHECK_EQ_IN(positions, wanted, count);
  }
}

void test_orders_keep_no_history() {
  check_no_history(Permutation(1000, 5), 1000);
  check_no_history(Permutation(1024, 5), 1024);
  check_no_history(WindowPermutation(1000, 64, 5), 1000);
  check_no_history(WindowPermutation(1000, 500, 5), 1000);
  check_no_history(BlockPermutation(1000, 7, 50, 5), 1000);
  check_no_history(BlockPermutation(1000, 300, 999, 5), 1000);
  check_no_history(LanePermutation(1000, 7, 50, 6, 5), 1000);
  check_no_history(LanePermutation(1000, 300, 999, 64, 5), 1000);
  const Permutation order(1000, 5);
  const Values wanted = first_values(order, 1000);
  for (std::uint64_t i = 0; i < 1000; ++i) CHECK_EQ_IN(order(i), wanted[i], i);
}

void test_inverse() {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    const Permutation order(size, size);
    for (std::uint64_t i = 0; i < size; ++i) CHECK_EQ_IN(order.inverse(order(i)), i, size);
  }
  for (const std::uint64_t size :
       {(std::uint64_t{1} << 32) + 1, std::uint64_t{1} << 62, (std::uint64_t{1} << 63) - 1}) {
    const Permutation order(size, 7);
    for (std::uint64_t i = 0; i < 100; ++i) {
      CHECK_EQ_IN(order.inverse(order(size - 1 - i)), size - 1 - i, size);
    }
  }
}

void test_huge_windows() {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 63) - 1;
  for (const std::uint64_t window : {std::uint64_t{1} << 40, kSize / 2, kSize - 1, kSize}) {
    for (const std::uint64_t begin : {std::uint64_t{0}, kSize / 2, kSize - 100}) {
      const Values positions = count_from(begin, 100);
      const Values values = values_at(WindowPermutation(kSize, window, 9), positions);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t position = positions[i];
        const std::uint64_t value = values[i];
        CHECK(value < kSize);
        CHECK((value > position ? value - position : position - value) <= window);
      }
    }
  }
}

// ---- blocks ----

// The same order, computed with all values in memory.
Values model_of_blocks(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                       std::uint64_t key) {
  const Permutation blocks((size - 1) / block + 1, mix(key));
  Values sequence;
  for (std::uint64_t i = 0; i * block < size; ++i) {
    const std::uint64_t begin = blocks(i) * block;
    for (std::uint64_t v = begin; v < std::min(begin + block, size); ++v) sequence.push_back(v);
  }
  Values values;
  for (std::uint64_t begin = 0; begin < size; begin += window) {
    const std::uint64_t count = std::min(window, size - begin);
    const Permutation inner(count, mix(mix(key + 1) ^ mix(begin / window)));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(sequence[begin + inner(i)]);
  }
  return values;
}

void test_blocks() {
  for (std::uint64_t size = 1; size <= 20; ++size) {
    for (std::uint64_t block = 1; block <= size + 1; ++block) {
      for (std::uint64_t window = 1; window <= size + 1; ++window) {
        const Values values = first_values(BlockPermutation(size, block, window, size), size);
        CHECK_EQ_IN(values, model_of_blocks(size, block, window, size), size);
      }
    }
  }
  for (const std::uint64_t block : {1, 10, 999, 1000, 1024, 4999, 5000}) {
    for (const std::uint64_t window : {1, 64, 1000, 4999}) {
      const BlockPermutation order(5000, block, window, 3);
      CHECK_EQ_IN(first_values(order, 5000), model_of_blocks(5000, block, window, 3), block);
      CHECK_EQ_IN(is_bijection(order, 5000), true, block);
    }
  }
}

void test_huge_blocks() {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 63) - 1;
  for (const std::uint64_t block : {std::uint64_t{1}, std::uint64_t{1000}, kSize / 2, kSize}) {
    for (const std::uint64_t window : {std::uint64_t{1000}, kSize - 1, kSize}) {
      Values values;
      for (const std::uint64_t begin : {std::uint64_t{0}, kSize / 2, kSize - 1000}) {
        const BlockPermutation order(kSize, block, window, 9);
        const Values some = values_at(order, count_from(begin, 1000));
        values.insert(values.end(), some.begin(), some.end());
      }
      std::sort(values.begin(), values.end());
      CHECK(values.back() < kSize);
      CHECK(std::adjacent_find(values.begin(), values.end()) == values.end());
    }
  }
}

// ---- lanes ----

// Returns the values of each lane, from an order that takes them in turn.
std::vector<Values> lanes_of(const Values& order, std::size_t lanes) {
  std::vector<Values> found(lanes);
  for (std::size_t i = 0; i < order.size(); ++i) found[i % lanes].push_back(order[i]);
  return found;
}

// Checks that each lane has the same values as without windows, window by window.
void check_lanes(std::uint64_t size, std::uint64_t block, std::uint64_t window,
                 std::uint64_t lanes) {
  const std::string note = std::to_string(size) + " block " + std::to_string(block) + " window " +
                           std::to_string(window) + " lanes " + std::to_string(lanes);
  const LanePermutation order(size, block, window, lanes, size);
  CHECK_EQ_IN(is_bijection(order, size), true, note);
  std::vector<Values> mixed = lanes_of(first_values(order, size), lanes);
  std::vector<Values> plain =
      lanes_of(first_values(LanePermutation(size, block, 1, lanes, size), size), lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    CHECK_EQ_IN(mixed[lane].size(), (size + lanes - 1 - lane) / lanes, note);
    for (std::size_t begin = 0; begin < mixed[lane].size(); begin += window) {
      const std::size_t end = std::min<std::size_t>(begin + window, mixed[lane].size());
      std::sort(mixed[lane].begin() + begin, mixed[lane].begin() + end);
      std::sort(plain[lane].begin() + begin, plain[lane].begin() + end);
    }
    CHECK_EQ_IN(mixed[lane], plain[lane], note);
  }
}

void test_lanes() {
  for (std::uint64_t size = 1; size <= 24; ++size) {
    for (std::uint64_t block = 1; block <= size + 1; ++block) {
      for (const std::uint64_t lanes : {1, 2, 3, 5, 8, 30}) check_lanes(size, block, 4, lanes);
    }
  }
  for (const std::uint64_t block : {1, 10, 999, 5000}) {
    for (const std::uint64_t window : {1, 64, 4999}) check_lanes(5000, block, window, 7);
  }
}

void test_huge_lanes() {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 63) - 1;
  for (const std::uint64_t block : {std::uint64_t{1}, std::uint64_t{1000}, kSize / 2, kSize}) {
    for (const std::uint64_t lanes : {std::uint64_t{1}, std::uint64_t{64}, kSize / 3}) {
      const LanePermutation order(kSize, block, kSize, lanes, 9);
      Values values;
      for (const std::uint64_t begin : {std::uint64_t{0}, kSize / 2, kSize - 1000}) {
        const Values some = values_at(order, count_from(begin, 1000));
        values.insert(values.end(), some.begin(), some.end());
      }
      std::sort(values.begin(), values.end());
      CHECK(values.back() < kSize);
      CHECK(std::adjacent_find(values.begin(), values.end()) == values.end());
    }
  }
}

// Saved training states depend on these values. A changed order needs a new name.
void test_golden_values() {
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
  CHECK_EQ(first_values(BlockPermutation(20, 3, 7, 5), 20),
           (Values{4, 18, 19, 17, 15, 16, 3, 1, 2, 7, 8, 0, 6, 5, 10, 12, 9, 11, 14, 13}));
  CHECK_EQ(first_values(BlockPermutation(1'000'000'000, 1000, 16'000, 42), 4),
           (Values{27931920, 99957652, 99957621, 768380819}));
  CHECK_EQ(first_values(LanePermutation(20, 3, 7, 4, 5), 20),
           (Values{14, 7, 17, 0, 11, 18, 16, 2, 15, 19, 4, 12, 10, 8, 5, 1, 9, 6, 3, 13}));
  CHECK_EQ(first_values(LanePermutation(1'000'000'000, 1000, 16'000, 64, 42), 4),
           (Values{410708340, 285015095, 505409485, 135606246}));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_every_small_size();
  test_huge_sizes();
  test_small_sizes_are_uniform();
  test_windows();
  test_repeated_positions();
  test_orders_keep_no_history();
  test_inverse();
  test_huge_windows();
  test_blocks();
  test_huge_blocks();
  test_lanes();
  test_huge_lanes();
  test_golden_values();
  return finish();
}
