// Sets of numbers: select and count_below compared with counting one by one, and wrong counts.
#include <optional>
#include <utility>

#include "check.h"
#include "order/permutation.h"
#include "order/selection.h"

namespace tio::test {
namespace {

using Words = std::vector<std::uint64_t>;
using Counts = std::vector<std::int64_t>;
using Answer = std::optional<std::int64_t>;

// One number at a time, as the model counts.
Answer select(const BitSet& set, std::int64_t position) {
  std::int64_t number = -1;
  return set.select({&position, 1}, {&number, 1}) ? Answer(number) : Answer();
}

Answer count_below(const BitSet& set, std::int64_t number) {
  std::int64_t position = -1;
  return set.count_below({&number, 1}, {&position, 1}) ? Answer(position) : Answer();
}

void check_all(const Words& words, std::size_t note) {
  const Counts counts = count_bits(words);
  const auto set = BitSet::open(words, counts);
  if (!CHECK_EQ_IN(set.has_value(), true, note)) return;
  std::int64_t position = 0;
  Counts numbers;
  const auto size = static_cast<std::int64_t>(words.size() * 64);
  for (std::int64_t number = 0; number < size; ++number) {
    CHECK_EQ_IN(count_below(*set, number), Answer(position), number);
    if ((words[number / 64] >> number % 64 & 1) == 0) continue;
    CHECK_EQ_IN(select(*set, position), Answer(number), note);
    numbers.push_back(number);
    ++position;
  }
  CHECK_EQ_IN(count_below(*set, size), Answer(position), note);
  CHECK_EQ_IN(count_below(*set, size + 1), Answer(), note);
  CHECK_EQ_IN(count_below(*set, INT64_MAX), Answer(), note);
  CHECK_EQ_IN(select(*set, position), Answer(), note);
  CHECK_EQ_IN(select(*set, INT64_MAX), Answer(), note);
  CHECK_EQ_IN(count_below(*set, -1), Answer(), note);
  CHECK_EQ_IN(select(*set, -1), Answer(), note);
  CHECK_EQ_IN(counts.back(), position, note);
  // All at once, last first.
  Counts positions(numbers.size());
  for (std::int64_t& asked : positions) asked = --position;
  Counts found(numbers.size());
  CHECK_EQ_IN(set->select(positions, found), true, note);
  CHECK_EQ_IN(Counts(found.rbegin(), found.rend()), numbers, note);
  CHECK_EQ_IN(set->count_below(numbers, found), true, note);
  CHECK_EQ_IN(Counts(found.rbegin(), found.rend()), positions, note);
}

// Words with few, half, most, all or none of their bits set.
void test_against_counting() {
  for (std::size_t size = 0; size <= 40; ++size) {
    for (std::uint64_t kind = 0; kind < 5; ++kind) {
      Words words(size);
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint64_t random = mix(size * 1000 + kind * 100 + i);
        const std::uint64_t sparse = random & mix(random) & mix(random + 1) & mix(random + 2);
        words[i] = kind == 0   ? random
                   : kind == 1 ? sparse
                   : kind == 2 ? ~sparse
                   : kind == 3 ? ~std::uint64_t{0}
                               : 0;
      }
      check_all(words, size);
    }
  }
}

void test_one_bit() {
  for (std::int64_t bit = 0; bit < 64 * 17; ++bit) {
    Words words(17);
    words[bit / 64] = std::uint64_t{1} << bit % 64;
    const Counts counts = count_bits(words);
    const auto set = BitSet::open(words, counts);
    CHECK_EQ(select(*set, 0), Answer(bit));
    CHECK_EQ(select(*set, 1), Answer());
    CHECK_EQ(count_below(*set, bit), Answer(0));
    CHECK_EQ(count_below(*set, bit + 1), Answer(1));
  }
}

void test_long_empty_stretches() {
  Words words(1000);
  words[0] = 1;
  words[999] = std::uint64_t{1} << 63;
  const Counts counts = count_bits(words);
  const auto set = BitSet::open(words, counts);
  CHECK_EQ(select(*set, 0), Answer(0));
  CHECK_EQ(select(*set, 1), Answer(63999));
  CHECK_EQ(count_below(*set, 63999), Answer(1));
}

void test_counts_of_another_size_are_refused() {
  const Words words(9);
  for (const std::size_t size : {0, 1, 2, 4, 100}) {
    const Counts counts(size);
    CHECK_EQ_IN(BitSet::open(words, counts).has_value(), false, size);
  }
  CHECK(BitSet::open(words, Counts(3)).has_value());
}

// The results are then missing or wrong, but nothing is read out of bounds.
void test_wrong_counts_do_no_harm() {
  for (const std::int64_t count : {INT64_MIN, std::int64_t{-1}, std::int64_t{600}, INT64_MAX}) {
    Words words(9);
    words[3] = 5;
    const Counts counts{0, count, count};
    const auto set = BitSet::open(words, counts);
    for (const std::uint64_t position :
         {std::int64_t{0}, std::int64_t{2}, std::int64_t{599}, INT64_MAX - 1, INT64_MAX}) {
      const Answer number = select(*set, position);
      CHECK(!number || (*number >= 0 && *number < 9 * 64));
    }
    CHECK(count_below(*set, 64 * 9).has_value());
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_against_counting();
  test_one_bit();
  test_long_empty_stretches();
  test_counts_of_another_size_are_refused();
  test_wrong_counts_do_no_harm();
  return finish();
}
