// Copies of rows: what offsets and indices of any content lead to, inside of the arenas. The values
// are compared with parsed records in Python.
#include <stdexcept>
#include <vector>

#include "check.h"
#include "order/permutation.h"
#include "rows/row_gather.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

Bytes bytes_of(const Numbers& numbers) {
  return std::as_bytes(std::span(numbers.data(), numbers.size()));
}

// Returns the arrays of a copy, which follow each other.
Numbers written(Bytes source, const RowGather& copy) {
  Numbers out(static_cast<std::size_t>(copy.arena_bytes / 8), -1);
  copy.write({&source, 1}, std::as_writable_bytes(std::span(out)));
  const std::size_t last = copy.arrays.size() - 3;
  const std::int64_t end = copy.arrays[last + 1] + copy.arrays[last + 2];
  out.resize(static_cast<std::size_t>(end / 8));
  return out;
}

// Returns what a copy of items has, which follows its offsets.
Numbers gather(const Numbers& source, const RowSpans& rows) {
  const std::vector<ArrayForm> forms = {
      {.kind = ArrayKind::offsets, .item_bytes = 8, .fill = 1, .fill_rows = 2},
      {.kind = ArrayKind::items, .item_bytes = 8, .fill = 7}};
  const std::vector<ArrayPlace> places = {{.at = 0, .rows = 3}, {.at = 32, .rows = 4}};
  const Bytes bytes = bytes_of(source);
  return written(bytes, RowGather({&bytes, 1}, forms, places, {rows}, 0));
}

void test_offsets() {
  CHECK_EQ(gather({0, 1, 1, 4, 10, 11, 12, 13}, {{0, 2, 1}, {0, 0, 2}}),
           (Numbers{0, 3, 4, 4, 11, 12, 13, 10}));
  // Rows outside of the values are cut.
  CHECK_EQ(gather({-5, 2, 1, 9, 10, 11, 12, 13}, {{0, 0, 3}}),
           (Numbers{0, 2, 2, 5, 10, 11, 11, 12, 13}));
  // Each row of padding has the value that fills rows.
  CHECK_EQ(gather({0, 1, 1, 4, 10, 11, 12, 13}, {{0, 0, 1}, {kPadding, 0, 2}}),
           (Numbers{0, 1, 3, 5, 10, 11, 12, 11, 12}));
}

void test_padding_of_items() {
  const Numbers source = {10, 11, 12, 13};
  const Bytes bytes = bytes_of(source);
  ArrayForm items{.kind = ArrayKind::items, .item_bytes = 8, .width = 2, .fill = 7};
  const RowSpans rows = {{kPadding, 0, 1}, {0, 1, 1}, {kPadding, 0, 1}};
  const std::vector<ArrayPlace> places = {{.at = 0, .rows = 2, .width = 2}};
  CHECK_EQ(written(bytes, RowGather({&bytes, 1}, {items}, places, {rows}, 0)),
           (Numbers{7, 7, 12, 13, 7, 7}));
  // Rows of another size are cut or padded.
  items.width = 3;
  CHECK_EQ(written(bytes, RowGather({&bytes, 1}, {items}, places, {{{0, 0, 2}}}, 0)),
           (Numbers{10, 11, 7, 12, 13, 7}));
  items.kept = 1;
  CHECK_EQ(written(bytes, RowGather({&bytes, 1}, {items}, places, {{{0, 0, 2}}}, 0)),
           (Numbers{10, 7, 7, 12, 7, 7}));
}

void test_padded_rows() {
  const Numbers source = {0, 1, 1, 4, 10, 11, 12, 13};
  const Bytes bytes = bytes_of(source);
  const std::vector<ArrayForm> forms = {
      {.kind = ArrayKind::padded, .item_bytes = 8, .width = 3, .kept = 2},
      {.kind = ArrayKind::items, .item_bytes = 8, .fill = 7}};
  const std::vector<ArrayPlace> places = {{.at = 0, .rows = 3}, {.at = 32, .rows = 4}};
  const RowSpans rows = {{0, 2, 1}, {kPadding, 0, 1}, {0, 0, 2}};
  CHECK_EQ(written(bytes, RowGather({&bytes, 1}, forms, places, {rows}, 0)),
           (Numbers{2, 0, 1, 0, 11, 12, 7, 7, 7, 7, 10, 7, 7, 7, 7, 7}));
}

void test_alignment() {
  const Numbers source(6);
  const Bytes bytes = bytes_of(source);
  const std::vector<ArrayForm> forms = {
      {.kind = ArrayKind::items, .item_bytes = 1, .width = 3, .copies = 2},
      {.kind = ArrayKind::items, .item_bytes = 8}};
  const std::vector<ArrayPlace> places = {{.at = 0, .rows = 1, .stride = 8, .width = 3},
                                          {.at = 16, .rows = 2}};
  const RowSpans rows = {{0, 0, 1}};
  const RowGather wide({&bytes, 1}, forms, places, {rows}, 64);
  CHECK_EQ(wide.arrays, (Numbers{1, 0, 64, 1, 128, 64}));
  CHECK_EQ(wide.arena_bytes, std::int64_t{192});
  const RowGather narrow({&bytes, 1}, forms, places, {rows}, 0);
  CHECK_EQ(narrow.arrays, (Numbers{1, 0, 3, 1, 8, 8}));
  CHECK_EQ(narrow.arena_bytes, std::int64_t{16});
}

template <class Call>
bool refuses(Call call) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

// Copies arrays of random places and content. Everything is checked by the sanitizers.
void test_any_content() {
  int copied = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    std::uint64_t step = 100 * round;
    const auto below = [&](std::uint64_t most) {
      return static_cast<std::int64_t>(mix(++step) % most);
    };
    Numbers source(24);
    for (auto& number : source)
      number = below(9) == 0 ? static_cast<std::int64_t>(mix(++step)) : below(9);
    const Bytes bytes = bytes_of(source);
    const std::int64_t width = 1 + below(2);
    constexpr ArrayKind kKinds[] = {ArrayKind::offsets, ArrayKind::indices, ArrayKind::padded};
    const std::vector<ArrayForm> forms = {{.kind = kKinds[below(3)],
                                           .width = width,
                                           .kept = below(4),
                                           .fill = below(3),
                                           .fill_rows = below(3)},
                                          {.kind = ArrayKind::items,
                                           .item_bytes = 1 + below(16),
                                           .width = below(4),
                                           .copies = 1 + below(2),
                                           .kept = below(4)}};
    std::vector<ArrayForm> sized = forms;
    sized[0].item_bytes = 8;
    const std::vector<ArrayPlace> places = {
        {.at = 8 * below(3), .rows = below(9), .width = 1 + below(2)},
        {.at = below(99),
         .rows = below(9) - (below(20) == 0),
         .stride = below(20),
         .width = below(4)}};
    const RowSpans rows = {{0, below(4), below(4)}, {-below(2), below(9), 1}};
    refuses([&] {
      const RowGather copy({&bytes, 1}, sized, places, {rows}, 8 * below(3));
      std::vector<std::byte> out(static_cast<std::size_t>(copy.arena_bytes));
      copy.write({&bytes, 1}, out);
      ++copied;
    });
  }
  CHECK(copied > 1000);
}

void test_what_is_refused() {
  const Numbers source(4);
  const Bytes bytes = bytes_of(source);
  const ArrayForm items{.kind = ArrayKind::items, .item_bytes = 8};
  const auto plan = [&](ArrayForm form, ArrayPlace place, RowSpan row) {
    return refuses([&] { RowGather({&bytes, 1}, {form}, {place}, {{row}}, 0); });
  };
  const ArrayPlace place{.at = 0, .rows = 4};
  CHECK(!plan(items, place, {0, 0, 4}));
  CHECK(plan(items, place, {0, 1, 4}));
  CHECK(plan(items, place, {1, 0, 1}));
  CHECK(plan(items, {.at = 8, .rows = 4}, {0, 0, 1}));
  CHECK(plan(items, {.at = 0, .rows = std::int64_t{1} << 61}, {0, 0, 1}));
  // A column ends with items.
  CHECK(plan({.kind = ArrayKind::offsets, .item_bytes = 8}, {.at = 0, .rows = 3}, {0, 0, 1}));
  const RowGather copy({&bytes, 1}, {items}, {place}, {{{0, 0, 4}}}, 0);
  std::vector<std::byte> out(31);
  CHECK(refuses([&] { copy.write({&bytes, 1}, out); }));
  out.resize(32);
  CHECK(refuses([&] { copy.write({}, out); }));
  CHECK(!refuses([&] { copy.write({&bytes, 1}, out); }));
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_offsets();
  tio::test::test_padding_of_items();
  tio::test::test_padded_rows();
  tio::test::test_alignment();
  tio::test::test_any_content();
  tio::test::test_what_is_refused();
  return tio::test::finish();
}
