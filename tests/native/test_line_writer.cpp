// Arrays that are written by whole lines: at any alignment, by any calls, and nothing around them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "packing/line_writer.h"

namespace tio::test {
namespace {

constexpr std::size_t kRoom = 400;
constexpr int kUntouched = -7;

// Calls of a writer of items at some place of the memory, and the same by simple means.
template <class T>
class Written {
 public:
  explicit Written(std::size_t place)
      : memory_(kRoom, T{kUntouched}), writer_(memory_.data() + place) {
    expected_.assign(place, T{kUntouched});
  }

  void put(T item) {
    writer_.put(item);
    expected_.push_back(item);
  }

  void put_ramp(std::size_t count, T first, T step) {
    writer_.put_ramp(count, first, step);
    for (std::size_t i = 0; i < count; ++i) {
      expected_.push_back(static_cast<T>(first + static_cast<T>(i) * step));
    }
  }

  template <class U>
  void put_all(const std::vector<U>& items) {
    writer_.put_all(items.data(), items.data() + items.size());
    for (const U item : items) expected_.push_back(static_cast<T>(item));
  }

  std::size_t room() const { return kRoom - expected_.size(); }

  void check(unsigned seed) {
    writer_.finish();
    expected_.resize(kRoom, T{kUntouched});
    CHECK_EQ_IN(memory_, expected_, seed);
  }

 private:
  std::vector<T> memory_;
  std::vector<T> expected_;
  LineWriter<T> writer_;
};

template <class T>
void test_any_calls() {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t end) { return random() % end; };
    Written<T> written(below(20));
    while (below(8) != 0) {
      // Short runs, and those of some lines.
      const std::size_t count = std::min(below(2) == 0 ? below(6) : below(90), written.room() - 1);
      switch (below(4)) {
        case 0: written.put(static_cast<T>(below(1000))); break;
        case 1:
          written.put_ramp(count, static_cast<T>(below(1000)), static_cast<T>(below(2)));
          break;
        case 2: {
          std::vector<std::int64_t> items(count);
          std::iota(items.begin(), items.end(), std::int64_t{1} << 20);
          written.put_all(items);
          break;
        }
        default: written.put_all(std::vector<std::int16_t>(count, -3));
      }
      if (written.room() < 2) break;
    }
    written.check(seed);
  }
}

// What follows the last number of a ramp is not computed as a number that can overflow.
void test_ramps_up_to_the_largest_number() {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  Written<std::int32_t> written(3);
  written.put_ramp(37, kMost - 36, 1);
  written.check(0);
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_any_calls<std::int32_t>();
  tio::test::test_any_calls<std::int64_t>();
  tio::test::test_ramps_up_to_the_largest_number();
  return tio::test::finish();
}
