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

// Returns what a copy of items has, which follows its offsets.
Numbers gather(const Numbers& source, const RowSpans& rows) {
  const std::vector<ArrayForm> forms = {
      {.kind = ArrayKind::offsets, .item_bytes = 8, .fill = 1, .fill_rows = 2},
      {.kind = ArrayKind::items, .item_bytes = 8, .fill = 7}};
  const std::vector<ArrayPlace> places = {{.at = 0, .rows = 3}, {.at = 32, .rows = 4}};
  const Bytes bytes = bytes_of(source);
  const RowGather copy({&bytes, 1}, forms, places, {rows});
  const std::size_t offsets = static_cast<std::size_t>(copy.sizes[0]) + 1;
  Numbers out(offsets + static_cast<std::size_t>(copy.sizes[1]), -1);
  const std::vector<ArrayTarget> targets = {{}, {.at = static_cast<std::int64_t>(8 * offsets)}};
  copy.write({&bytes, 1}, targets, std::as_writable_bytes(std::span(out)));
  return out;
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
  const ArrayForm items{.kind = ArrayKind::items, .item_bytes = 8, .width = 2, .fill = 7};
  const RowGather copy({&bytes, 1}, {items}, {{.at = 0, .rows = 2}},
                       {{{kPadding, 0, 1}, {0, 1, 1}, {kPadding, 0, 1}}});
  Numbers out(6, -1);
  copy.write({&bytes, 1}, std::vector<ArrayTarget>{{}}, std::as_writable_bytes(std::span(out)));
  CHECK_EQ(out, (Numbers{7, 7, 12, 13, 7, 7}));
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
    const std::vector<ArrayForm> forms = {
        {.kind = below(2) == 0 ? ArrayKind::offsets : ArrayKind::indices,
         .width = width,
         .fill = below(3),
         .fill_rows = below(3)},
        {.kind = ArrayKind::items,
         .item_bytes = 1 + below(16),
         .width = below(4),
         .copies = 1 + below(2)}};
    std::vector<ArrayForm> sized = forms;
    sized[0].item_bytes = 8;
    const std::vector<ArrayPlace> places = {
        {.at = 8 * below(3), .rows = below(9)},
        {.at = below(99), .rows = below(9) - (below(20) == 0), .stride = below(20)}};
    const RowSpans rows = {{0, below(4), below(4)}, {-below(2), below(9), 1}};
    refuses([&] {
      const RowGather copy({&bytes, 1}, sized, places, {rows});
      std::vector<std::byte> out(1000);
      copy.write({&bytes, 1}, std::vector<ArrayTarget>{{below(9), 0}, {below(900), below(90)}},
                 out);
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
    return refuses([&] { RowGather({&bytes, 1}, {form}, {place}, {{row}}); });
  };
  const ArrayPlace place{.at = 0, .rows = 4};
  CHECK(!plan(items, place, {0, 0, 4}));
  CHECK(plan(items, place, {0, 1, 4}));
  CHECK(plan(items, place, {1, 0, 1}));
  CHECK(plan(items, {.at = 8, .rows = 4}, {0, 0, 1}));
  CHECK(plan(items, {.at = 0, .rows = std::int64_t{1} << 61}, {0, 0, 1}));
  // A column ends with items.
  CHECK(plan({.kind = ArrayKind::offsets, .item_bytes = 8}, {.at = 0, .rows = 3}, {0, 0, 1}));
  const RowGather copy({&bytes, 1}, {items}, {place}, {{{0, 0, 4}}});
  std::vector<std::byte> out(32);
  CHECK(refuses([&] { copy.write({&bytes, 1}, std::vector<ArrayTarget>{{1, 0}}, out); }));
  CHECK(refuses([&] { copy.write({}, std::vector<ArrayTarget>{{0, 0}}, out); }));
  CHECK(refuses([&] { copy.write({&bytes, 1}, {}, out); }));
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_offsets();
  tio::test::test_padding_of_items();
  tio::test::test_any_content();
  tio::test::test_what_is_refused();
  return tio::test::finish();
}
