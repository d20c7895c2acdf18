// The steps of feature lists: every valid encoding has the values that protobuf reads, for any
// expected kind, and all else is rejected.
#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/sequence.h"

namespace tio::test {
namespace {

// Reads the steps of the FeatureList in [at, limit).
template <class Visit>
bool walk_each_step(Bytes record, std::size_t at, std::size_t limit, Kind likely, Visit&& visit) {
  const Location list{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(limit - at),
                      Form::list, Kind::none};
  return walk_steps(record, list, likely, visit);
}

using Ints = std::vector<std::int64_t>;
using Steps = std::vector<Ints>;
using MaybeSteps = std::optional<Steps>;

const MaybeSteps kRefused;

std::string int_step(const Ints& values) { return feature(Kind::ints, packed_ints(values)); }

// Reads the integers of each step of list "a" from a record with these fields of FeatureLists.
MaybeSteps read_lists(const std::string& lists) {
  static const ExampleParser parser({in_lists(ragged("a", Dtype::int64))});
  const Parsed parsed = parse(parser, delimited(2, lists));
  if (!parsed.good()) return std::nullopt;
  const Cell& cell = parsed.cells[0][0];
  Steps found;
  std::size_t next = 0;
  for (const auto size : cell.units) {
    found.emplace_back();
    for (std::uint64_t i = 0; i < size; ++i) {
      found.back().push_back(load<std::int64_t>(exact(cell.values[next++]), 0));
    }
  }
  return found;
}

// Reads list "a" with these steps, or with these bytes as its FeatureList.
MaybeSteps read_steps(const std::vector<std::string>& features) {
  return read_lists(list_entry("a", features));
}
MaybeSteps read_list(const std::string& list) { return read_lists(entry("a", list)); }

// ---- walking ----

using Walk = std::vector<std::tuple<Form, Kind, std::string>>;

std::optional<Walk> walk(const std::string& list, Kind likely) {
  const auto bytes = exact(list);
  Walk walk;
  const bool legal = walk_each_step(bytes, 0, bytes.size(), likely, [&](const Location& step) {
    const Bytes values = step.of(bytes);
    // The offset of an empty list does not matter.
    const bool is_there = step.form != Form::missing && step.form != Form::empty;
    walk.emplace_back(
        step.form, step.kind,
        is_there ? std::string(reinterpret_cast<const char*>(values.data()), values.size()) : "");
    return true;
  });
  return legal ? std::optional(walk) : std::nullopt;
}

// The expected kind affects only the speed.
std::optional<Walk> walk_any(const std::string& list) {
  const auto as_ints = walk(list, Kind::ints);
  CHECK_EQ_IN(as_ints == walk(list, Kind::floats), true, list);
  CHECK_EQ_IN(as_ints == walk(list, Kind::bytes), true, list);
  return as_ints;
}

void test_plain_steps() {
  for (const Kind kind : {Kind::bytes, Kind::floats, Kind::ints}) {
    for (std::size_t size = 0; size < 300; ++size) {
      const std::string values(kind == Kind::floats ? size * 4 : size, '\x01');
      const std::string step = delimited(1, feature(kind, delimited(1, values)));
      const auto one = walk_any(step);
      const Walk wanted(3, {Form::single, kind, values});
      CHECK(one == Walk(1, wanted[0]));
      CHECK(walk_any(step + step + step) == wanted);
      CHECK(walk_any(delimited(1, "") + step) ==
            (Walk{{Form::missing, Kind::none, ""}, wanted[0]}));
    }
  }
}

// Changes each byte of the header of a step, at the end of the record and before another step.
void test_headers_with_a_byte_changed() {
  for (const Kind kind : {Kind::bytes, Kind::floats, Kind::ints}) {
    for (const std::size_t size : {0, 4, 8, 120}) {
      const std::string step = delimited(1, feature(kind, delimited(1, std::string(size, '\x01'))));
      for (std::size_t at = 0; at < 6; ++at) {
        for (int value = 0; value < 256; ++value) {
          std::string changed = step;
          changed[at] = static_cast<char>(value);
          walk_any(changed);
          walk_any(changed + step);
          walk_any(step + changed + std::string(20, '\0'));
        }
      }
    }
  }
}

// Changes all lengths of a step by the same amount, as the comparison expects.
void test_every_claimed_length() {
  for (int claimed = 0; claimed < 256; ++claimed) {
    for (const std::size_t there : {0, 1, 4, 8, 100, 123, 124, 125, 250}) {
      const std::string header = raw({0x0a, claimed, 0x1a, claimed - 2, 0x0a, claimed - 4});
      const auto found = walk_any(header + std::string(there, '\x01'));
      const bool legal = claimed >= 4 && claimed < 0x80 && there + 4 >= std::size_t(claimed);
      if (!legal || there + 4 == std::size_t(claimed))
        CHECK_EQ_IN(found.has_value(), legal, claimed);
      const auto limited = exact(header + std::string(there, '\x01'));
      bool inside = true;
      // The list ends before the record does.
      for (std::size_t limit = 2; limit < limited.size(); limit += 5) {
        walk_each_step(limited, 0, limit, Kind::ints, [&](const Location& step) {
          inside = inside && step.offset + step.size <= limit;
          return true;
        });
      }
      CHECK(inside);
    }
  }
}

void test_cuts() {
  const std::string list = steps({int_step({1}), "", int_step({1, 300}), int_step({})});
  const std::vector<std::size_t> borders = {0, 7, 9, list.size() - 6, list.size()};
  for (std::size_t size = 0; size <= list.size(); ++size) {
    const bool is_border = std::ranges::find(borders, size) != borders.end();
    CHECK_EQ_IN(walk_any(list.substr(0, size)).has_value(), is_border, size);
    CHECK_EQ_IN(read_list(list.substr(0, size)).has_value(), is_border, size);
  }
}

void test_visit_may_stop() {
  const auto bytes = exact(steps({int_step({1}), int_step({2}), int_step({3})}));
  int seen = 0;
  CHECK(!walk_each_step(bytes, 0, bytes.size(), Kind::ints,
                        [&](const Location&) { return ++seen < 2; }));
  CHECK_EQ(seen, 2);
  const Location wrong{0, static_cast<std::uint32_t>(bytes.size()), Form::single, Kind::ints};
  CHECK(!walk_steps(bytes, wrong, Kind::ints, [](const Location&) { return true; }));
  CHECK(walk_steps(bytes, Location(), Kind::ints, [](const Location&) { return false; }));
}

// ---- values of the steps ----

void test_spellings_of_a_step() {
  const std::string one = int_step({1});
  const std::string number = feature(Kind::floats, packed_floats({1.5F}));
  const Ints many(200, 1000);
  CHECK_EQ(read_steps({}), Steps{});
  CHECK_EQ(read_steps({one}), Steps{{1}});
  CHECK_EQ(read_steps({one, int_step({2, -1}), int_step({3})}), (Steps{{1}, {2, -1}, {3}}));
  CHECK_EQ(read_steps({int_step(many), one, int_step(many)}), (Steps{many, {1}, many}));
  CHECK_EQ(read_steps({"", one, ""}), (Steps{{}, {1}, {}}));
  CHECK_EQ(read_steps({feature(Kind::ints, ""), int_step({})}), (Steps{{}, {}}));
  CHECK_EQ(read_steps({feature(Kind::ints, unpacked_ints({1, 2}))}), Steps({{1, 2}}));
  CHECK_EQ(read_steps({feature(Kind::ints, packed_ints({1}) + unpacked_ints({2})), one}),
           (Steps{{1, 2}, {1}}));
  CHECK_EQ(read_steps({one + one, one}), (Steps{{1, 1}, {1}}));
  CHECK_EQ(read_steps({number + one, one + number + one}), (Steps{{1}, {1}}));
  CHECK_EQ(read_steps({varint_field(9, 1), one + varint_field(9, 1)}), (Steps{{}, {1}}));
  CHECK_EQ(read_list(field_tag(1, wire::delimited, 3) + varint(one.size(), 4) + one), Steps{{1}});
  CHECK_EQ(read_steps({delimited(3, field_tag(1, wire::delimited, 2) + varint(1, 3) + "\x07")}),
           Steps{{7}});
  CHECK_EQ(read_steps({one, number}), kRefused);
  CHECK_EQ(read_steps({one + number}), kRefused);
  CHECK_EQ(read_steps({feature(Kind::floats, "")}), kRefused);
}

void test_unknown_fields() {
  const std::string one = int_step({1});
  const std::string list = steps({one, one});
  const Steps wanted = {{1}, {1}};
  for (const auto& unknown :
       {varint_field(9, 300), delimited(9, "abc"), field_tag(9, wire::fixed64) + "12345678",
        field_tag(9, wire::fixed32) + "1234", group(9, group(10, "") + varint_field(1, 1)),
        nested_groups(90), varint_field(1, 7), group(1, delimited(1, "a")),
        field_tag(1, wire::fixed32) + "1234", delimited(3, one)}) {
    CHECK_EQ_IN(read_list(unknown + list), wanted, unknown);
    CHECK_EQ_IN(read_list(list + unknown), wanted, unknown);
    CHECK_EQ_IN(read_list(delimited(1, one) + unknown + delimited(1, one)), wanted, unknown);
    CHECK_EQ_IN(read_lists(unknown + entry("a", list) + unknown),
                unknown[0] == '\x0a' ? kRefused : wanted, unknown);
    if (unknown.starts_with(raw({0x1a}))) continue;  // a Feature's int64_list
    CHECK_EQ_IN(read_steps({unknown + one, one + unknown}), wanted, unknown);
  }
  for (const auto& illegal : {raw({0x00}), raw({0x0e}), raw({0x0c}), raw({0x0b}), raw({0x0a, 1}),
                              nested_groups(101), varint(10, 6) + varint(0)}) {
    CHECK_EQ_IN(read_list(illegal + list), kRefused, illegal);
    CHECK_EQ_IN(read_list(list + illegal), kRefused, illegal);
    CHECK_EQ_IN(read_steps({one, illegal + one}), kRefused, illegal);
    CHECK_EQ_IN(read_steps({one, one + illegal}), kRefused, illegal);
    CHECK_EQ_IN(read_steps({feature(Kind::ints, packed_ints({1}) + illegal)}), kRefused, illegal);
    CHECK_EQ_IN(read_lists(entry("a", list) + illegal), kRefused, illegal);
  }
}

void test_entries() {
  const std::string key = delimited(1, "a");
  const std::string one = delimited(2, steps({int_step({1})}));
  const std::string two = delimited(2, steps({int_step({2}), ""}));
  const auto read = [](const std::string& fields) { return read_lists(delimited(1, fields)); };
  CHECK_EQ(read(key + one), Steps{{1}});
  CHECK_EQ(read(one + key), Steps{{1}});
  CHECK_EQ(read(key), Steps{});  // an entry without a value has no steps
  CHECK_EQ(read(delimited(1, "b") + one + key), Steps{{1}});
  CHECK_EQ(read(key + one + delimited(1, "b")), Steps{});
  // One FeatureList in several parts.
  CHECK_EQ(read(key + one + two), (Steps{{1}, {2}, {}}));
  CHECK_EQ(read(two + key + one + delimited(2, "") + group(7, "") + one),
           (Steps{{2}, {}, {1}, {1}}));
  CHECK_EQ(read(key + one + delimited(2, raw({0x0e}))), kRefused);
  CHECK_EQ(read(key + delimited(2, raw({0x0e})) + one), kRefused);

  // A required list shows whether an entry counts as present.
  const ExampleParser required({in_lists(padded("a", Dtype::int64))});
  CHECK(parse(required, delimited(2, delimited(1, key))).good());
  CHECK(parse(required, delimited(2, list_entry("a", {}))).good());
  CHECK(!parse(required, delimited(2, list_entry("b", {}))).good());
  CHECK(!parse(required, delimited(2, "")).good());
  CHECK(!parse(required, "").good());
}

void test_several_entries() {
  const std::string one = list_entry("a", {int_step({1}), int_step({2})});
  const std::string other = list_entry("a", {int_step({3})});
  CHECK_EQ(read_lists(one + other), Steps{{3}});
  CHECK_EQ(read_lists(other + list_entry("b", {""}) + one), (Steps{{1}, {2}}));
  CHECK_EQ(read_lists(one + list_entry("a", {})), Steps{});
  CHECK_EQ(read_lists(list_entry("a", {feature(Kind::floats, "")}) + one), (Steps{{1}, {2}}));
  static const ExampleParser parser({in_lists(ragged("a", Dtype::int64))});
  const Parsed parts = parse(parser, delimited(2, one) + example("") + delimited(2, other));
  CHECK(parts.good());
  CHECK_EQ(parts.cells[0][0].units, std::vector<std::uint64_t>{1});
  // Entries that are replaced must be valid, too.
  const std::string key = delimited(1, "a");
  for (const auto& damaged :
       {list_entry("a", {feature(Kind::ints, delimited(1, "\x80"))}),
        list_entry("a", {feature(Kind::ints, delimited(1, std::string(10, '\x80') + "\x01"))}),
        list_entry("a", {feature(Kind::floats, delimited(1, "abc"))}), entry("a", raw({0x0e})),
        delimited(1, key + delimited(2, "") + delimited(2, raw({0x0e}))),
        list_entry("a", {raw({0x0e})})}) {
    CHECK_EQ_IN(read_lists(damaged + one), kRefused, damaged);
    CHECK_EQ_IN(read_lists(one + damaged), kRefused, damaged);
    CHECK_EQ_IN(read_lists(damaged + list_entry("a", {})), kRefused, damaged);
  }
}

// A context feature and a list of the same name are independent.
void test_same_key_in_context() {
  const ExampleParser parser({ragged("a", Dtype::int64), in_lists(ragged("a", Dtype::float32)),
                              in_lists(ragged("c", Dtype::int64))});
  CHECK_EQ(parser.slots(), 3U);
  const std::string floats = feature(Kind::floats, packed_floats({1, 2}));
  const Parsed parsed = parse(
      parser, sequence(ints_entry("a", {5}) + ints_entry("c", {6}), list_entry("a", {floats})));
  if (!CHECK(parsed.good())) return;
  CHECK_EQ(parsed.cells[0][0].values, Values{little_endian(std::int64_t{5})});
  CHECK_EQ(parsed.cells[0][1].values, (Values{little_endian(1.0F), little_endian(2.0F)}));
  CHECK_EQ(parsed.cells[0][2].units.size(), 0U);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_plain_steps();
  test_headers_with_a_byte_changed();
  test_every_claimed_length();
  test_cuts();
  test_visit_may_stop();
  test_spellings_of_a_step();
  test_unknown_fields();
  test_entries();
  test_several_entries();
  test_same_key_in_context();
  return finish();
}
