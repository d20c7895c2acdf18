// The check of column offsets: every part must lie inside the arena and be aligned.
#include <functional>
#include <limits>

#include "arena.h"
#include "batch.h"
#include "check.h"
#include "encode.h"

namespace tio::test {
namespace {

const std::string& record() {
  static const std::string record = sequence(
      ints_entry("i", {1, 2, 3}) + bytes_entry("s", {"abc", "de"}) + bytes_entry("one", {"xyz"}),
      list_entry("l", {feature(Kind::ints, packed_ints({1, 2})), feature(Kind::ints, "")}));
  return record;
}

// The parts of a column: the member of its offsets, its size in bytes and its alignment, for a
// batch of two of the records above.
struct Part {
  std::uint64_t ColumnOffsets::* member;
  std::uint64_t size;
  std::uint64_t alignment;
};
struct Case {
  FeatureSpec spec;
  std::vector<Part> parts;
};

std::vector<Case> cases() {
  constexpr auto rows = &ColumnOffsets::rows;
  constexpr auto steps = &ColumnOffsets::steps;
  constexpr auto values = &ColumnOffsets::values;
  constexpr auto data = &ColumnOffsets::data;
  const Values two = {"ab", "c"};
  return {
      {fixed("i", Dtype::int64, 3), {{data, 48, 8}}},
      {fixed("i", Dtype::int32, 3), {{data, 24, 4}}},
      {fixed("i", Dtype::int16, 3), {{data, 12, 2}}},
      {fixed("i", Dtype::uint8, 3), {{data, 6, 1}}},
      {fixed("s", Dtype::bytes, 2), {{values, 40, 8}, {data, 10, 1}}},
      {with_default(fixed("none", Dtype::bytes, 2), two), {{values, 40, 8}, {data, 6, 1}}},
      {ragged("i", Dtype::int64), {{rows, 24, 8}, {data, 48, 8}}},
      {with_int32_splits(ragged("i", Dtype::int64)), {{rows, 12, 4}, {data, 48, 8}}},
      {ragged("s", Dtype::bytes), {{rows, 24, 8}, {values, 40, 8}, {data, 10, 1}}},
      {flat("i", Dtype::int32), {{data, 24, 4}}},
      {flat("s", Dtype::bytes), {{values, 40, 8}, {data, 10, 1}}},
      {padded("i", Dtype::int64, 3), {{rows, 16, 8}, {data, 48, 8}}},
      {padded("s", Dtype::bytes, 2), {{rows, 16, 8}, {values, 40, 8}, {data, 10, 1}}},
      {one_bytes("one", ColumnType::raw_bytes, 3), {{data, 6, 1}}},
      {one_bytes("one", ColumnType::resized_bytes, 5), {{data, 10, 1}}},
      {one_bytes("one", ColumnType::span), {}},
      {on_request("i"), {}},
      {in_lists(on_request("l")), {}},
      {in_lists(flat("l", Dtype::int64)), {{data, 32, 8}}},
      {in_lists(ragged("l", Dtype::int64)), {{rows, 24, 8}, {steps, 40, 8}, {data, 32, 8}}},
      {in_lists(with_int32_splits(ragged("l", Dtype::int8))),
       {{rows, 12, 4}, {steps, 20, 4}, {data, 4, 1}}},
      {in_lists(optional(padded("none", Dtype::int64, 7))), {{rows, 16, 8}, {data, 0, 8}}},
  };
}

constexpr std::uint64_t kRoom = 64;

// Returns whether the column fits in `room` bytes if this part starts at `at` and all others at 0.
bool fits(const Case& test, const Part& part, std::uint64_t at, std::uint64_t room) {
  const ExampleParser parser({test.spec});
  const Batch batch = apart({record(), record()});
  const LocateResult located = parser.locate(batch.records);
  CHECK(located.failures.empty());
  alignas(8) std::byte arena[kRoom];
  ColumnOffsets column;
  column.*part.member = at;
  return parser.fits(located, {&column, 1}, MutableBytes(arena).first(room));
}

void test_each_part() {
  for (const Case& test : cases()) {
    for (const Part& part : test.parts) {
      const std::uint64_t last = (kRoom - part.size) / part.alignment * part.alignment;
      for (std::uint64_t at = 0; at <= kRoom + 16; ++at) {
        const bool good = at % part.alignment == 0 && at <= last;
        CHECK_EQ_IN(fits(test, part, at, kRoom), good, at);
      }
      constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
      for (const std::uint64_t far :
           {kMost, kMost - 7, -part.alignment, kMost - part.size, kMost / 2 + 1}) {
        CHECK_EQ_IN(fits(test, part, far, kRoom), false, far);
      }
    }
  }
}

void test_room() {
  for (const Case& test : cases()) {
    std::uint64_t needed = 0;
    for (const Part& part : test.parts) needed = std::max(needed, part.size);
    for (const Part& part : test.parts) {
      CHECK(fits(test, part, 0, needed));
      if (needed != 0) CHECK(!fits(test, part, 0, needed - 1));
    }
  }
}

// Products of large counts must not overflow to small numbers.
void test_sizes_that_overflow() {
  const ExampleParser parser({padded("i", Dtype::int64, std::uint64_t{1} << 32),
                              ragged("s", Dtype::bytes), in_lists(ragged("l", Dtype::int64)),
                              one_bytes("r", ColumnType::raw_bytes, std::uint64_t{1} << 63)});
  alignas(8) std::byte arena[kRoom];
  const std::vector<ColumnOffsets> columns(4);
  LocateResult located;
  located.records = 2;
  const auto fits_with = [&](std::size_t feature, ColumnSize size) {
    located.sizes.assign(4, ColumnSize());
    located.sizes[feature] = size;
    return parser.fits(located, columns, arena);
  };
  located.records = 0;
  CHECK(fits_with(0, {}));
  located.records = 2;
  CHECK(!fits_with(0, {}));  // the raw column takes 2^64 bytes
  located.records = 1;
  CHECK(!fits_with(0, {}));
  const ExampleParser without_raw({parser.specs()[0], parser.specs()[1], parser.specs()[2]});
  const auto fits_without = [&](std::size_t feature, ColumnSize size) {
    located.sizes.assign(3, ColumnSize());
    located.sizes[feature] = size;
    return without_raw.fits(located, std::span(columns).first(3), arena);
  };
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  CHECK(fits_without(0, {}));
  CHECK(!fits_without(0, {.longest = std::uint64_t{1} << 32}));
  CHECK(!fits_without(0, {.longest = std::uint64_t{1} << 29}));
  CHECK(!fits_without(1, {.values = kMost}));
  CHECK(!fits_without(1, {.values = kMost / 8}));
  CHECK(!fits_without(1, {.bytes = kMost}));
  CHECK(!fits_without(2, {.values = kMost / 8 + 1}));
  CHECK(!fits_without(2, {.steps = kMost / 8}));
}

void test_the_arena_itself() {
  const ExampleParser parser({fixed("i", Dtype::uint8, 3), ragged("i", Dtype::int64)});
  const Batch batch = apart({record()});
  const LocateResult located = parser.locate(batch.records);
  alignas(8) std::byte arena[kRoom + 8];
  const std::vector<ColumnOffsets> columns(3);
  CHECK(parser.fits(located, std::span(columns).first(2), MutableBytes(arena)));
  CHECK(!parser.fits(located, std::span(columns).first(1), MutableBytes(arena)));
  CHECK(!parser.fits(located, columns, MutableBytes(arena)));
  CHECK(!parser.fits(LocateResult(), std::span(columns).first(2), MutableBytes(arena)));
  for (std::size_t by = 1; by < 8; ++by) {
    CHECK(!parser.fits(located, std::span(columns).first(2), MutableBytes(arena).subspan(by)));
  }
}

// parse_fixed checks the offsets itself, and writes nothing if they do not fit.
void test_parse_fixed() {
  const ExampleParser parser({fixed("i", Dtype::int64, 3)});
  const Batch batch = apart({record(), record()});
  alignas(8) std::byte arena[48] = {};
  std::vector<Failure> found;
  ColumnOffsets column;
  for (const std::size_t room : {std::size_t{0}, std::size_t{47}}) {
    CHECK(!parser.parse_fixed(batch.records, {&column, 1}, MutableBytes(arena).first(room), found));
  }
  CHECK(!parser.parse_fixed(batch.records, {}, arena, found));
  CHECK(std::ranges::all_of(arena, [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK(parser.parse_fixed(batch.records, {&column, 1}, arena, found));
  CHECK(found.empty());
  CHECK_EQ(load<std::int64_t>(arena, 40), 3);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_each_part();
  test_room();
  test_sizes_that_overflow();
  test_the_arena_itself();
  test_parse_fixed();
  return finish();
}
