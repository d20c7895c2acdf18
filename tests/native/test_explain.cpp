// Explanations of invalid records: the offset, the feature and the reason.
#include <optional>
#include <random>

#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/explain.h"

namespace tio::test {
namespace {

constexpr const char* kCutTag = "a field tag is truncated";
constexpr const char* kBadTag = "a field tag has an invalid field number";
constexpr const char* kTooLong = "the length of a field extends past the end of its message";
constexpr const char* kBadVarint = "a varint is truncated or longer than 10 bytes";
constexpr const char* kCutNumber = "a fixed-size number is truncated";
constexpr const char* kBadGroup =
    "a group is invalid, not closed, or nested deeper than 100 levels";
constexpr const char* kStrayEnd = "a group ends without a matching start";
constexpr const char* kBadType = "a field has an invalid wire type";
constexpr const char* kBadFloats = "the size of packed floats is not a multiple of 4 bytes";

constexpr std::optional<std::size_t> kNoSlot;

// Slots: context a 0, context f 1, context s 2, list a 3, list f 4.
const ExampleParser& parser() {
  static const ExampleParser parser({ragged("a", Dtype::int64), flat("a", Dtype::int64),
                                     ragged("f", Dtype::float32), ragged("s", Dtype::bytes),
                                     in_lists(ragged("a", Dtype::int64)),
                                     in_lists(ragged("f", Dtype::float32))});
  return parser;
}

std::optional<Fault> explain_one(const ExampleParser& with, const std::string& record) {
  const auto bytes = exact(record);
  return explain(with, bytes);
}

// A kind of damage: the offset of the fault in it, and its reason.
struct Damage {
  std::string bytes;
  std::size_t at;
  const char* reason;
};

// Damage that any message may have in its last fields.
std::vector<Damage> damages() {
  return {
      {raw({0x80}), 0, kCutTag},
      {raw({0x80, 0x80, 0x80}), 0, kCutTag},
      {raw({0x00, 0x00}), 0, kBadTag},
      {raw({0x02, 0x00}), 0, kBadTag},
      {std::string(5, '\x80') + raw({1, 0}), 0, kBadTag},
      {varint(std::uint64_t{10} << 32) + raw({0}), 0, kBadTag},
      {raw({0x4a}), 0, kTooLong},
      {raw({0x4a, 0x80}), 0, kTooLong},
      {raw({0x4a, 5, 1, 2, 3, 4}), 0, kTooLong},
      {raw({0x4a}) + varint(0xffffffff), 0, kTooLong},
      {raw({0x4a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}), 0, kTooLong},
      {raw({0x48}), 0, kBadVarint},
      {raw({0x48, 0x80}), 0, kBadVarint},
      {raw({0x48}) + std::string(10, '\x80') + raw({1}), 0, kBadVarint},
      {raw({0x49}) + "1234567", 0, kCutNumber},
      {raw({0x4d}) + "123", 0, kCutNumber},
      {raw({0x4b}), 0, kBadGroup},
      {raw({0x4b, 0x54}), 0, kBadGroup},
      {raw({0x4b, 0x08, 0x80, 0x4c}), 0, kBadGroup},
      {nested_groups(101), 0, kBadGroup},
      {raw({0x4c}), 0, kStrayEnd},
      {raw({0x4e, 0x00}), 0, kBadType},
      {raw({0x4f, 0x00}), 0, kBadType},
      {varint_field(9, 300) + delimited(9, "abc") + raw({0x4c}), 8, kStrayEnd},
  };
}

// Checks the fault of a record that ends with `damage`, in a slot.
void check_fault(const std::string& record, const Damage& damage, std::optional<std::size_t> slot) {
  const std::size_t at = record.size() - damage.bytes.size() + damage.at;
  const auto fault = explain_one(parser(), record);
  if (!CHECK(fault.has_value())) return;
  CHECK_EQ_IN(fault->offset, at, record);
  CHECK_EQ_IN(fault->slot, slot, record);
  CHECK_EQ_IN(std::string(fault->reason), damage.reason, record);
  const Parsed parsed = parse(parser(), record);
  if (!CHECK_EQ_IN(parsed.good(), false, record)) return;
  CHECK_EQ_IN(parsed.failures[0].offset, at, record);
  CHECK_EQ_IN(parsed.failures[0].reason, damage.reason, record);
}

std::string good_fields() {
  return ints_entry("a", {1, 300}) + floats_entry("f", {1}) + bytes_entry("s", {"x", "y"});
}

void test_outside_of_features() {
  const std::string good = example(good_fields());
  for (const Damage& damage : damages()) {
    check_fault(damage.bytes, damage, kNoSlot);
    check_fault(good + damage.bytes, damage, kNoSlot);
    check_fault(good + example(damage.bytes), damage, kNoSlot);
    check_fault(good + example(good_fields() + damage.bytes), damage, kNoSlot);
    check_fault(good + delimited(2, damage.bytes), damage, kNoSlot);
    // An entry that is damaged itself may have any key.
    const std::string entry = delimited(1, delimited(1, "a") + damage.bytes);
    check_fault(example(entry), damage, kNoSlot);
    check_fault(good + delimited(2, entry), damage, kNoSlot);
  }
}

void test_in_features() {
  const std::string good = example(good_fields());
  const std::string one = feature(Kind::ints, packed_ints({1}));
  for (const Damage& damage : damages()) {
    check_fault(example(entry("a", damage.bytes)), damage, 0);
    check_fault(good + example(good_fields() + entry("a", one + damage.bytes)), damage, 0);
    check_fault(example(entry("f", feature(Kind::floats, damage.bytes))), damage, 1);
    check_fault(example(entry("a", feature(Kind::ints, packed_ints({1}) + damage.bytes))), damage,
                0);
    check_fault(example(entry("s", feature(Kind::bytes, bytes_values({"x"}) + damage.bytes))),
                damage, 2);
    // The key may come last, and lists that another kind replaces are checked too.
    const std::string list = feature(Kind::floats, damage.bytes);
    const auto fault =
        explain_one(parser(), example(delimited(1, delimited(2, list + one) + delimited(1, "a"))));
    if (CHECK(fault.has_value())) CHECK_EQ(fault->slot, 0U);
  }
}

void test_in_lists() {
  const std::string good = sequence(good_fields(), list_entry("a", {"", ""}));
  const std::string one = feature(Kind::ints, packed_ints({1}));
  for (const Damage& damage : damages()) {
    const auto in_list = [&](const std::string& steps) {
      return good + delimited(2, entry("a", steps));
    };
    check_fault(in_list(damage.bytes), damage, 3);
    check_fault(in_list(steps({one, one}) + damage.bytes), damage, 3);
    check_fault(in_list(steps({one, damage.bytes})), damage, 3);
    check_fault(in_list(steps({one, one + damage.bytes})), damage, 3);
    check_fault(in_list(steps({one, feature(Kind::ints, damage.bytes)})), damage, 3);
  }
}

void test_values() {
  const std::vector<Damage> ints = {
      {raw({0x80}), 0, kBadVarint},
      {raw({1, 2, 0x80}), 2, kBadVarint},
      {raw({1, 0x85, 0x80}), 1, kBadVarint},
      {raw({0x80, 1}) + std::string(10, '\x80') + raw({1, 7}), 2, kBadVarint},
      {std::string(40, '\x01') + std::string(11, '\xff'), 40, kBadVarint},
  };
  const std::string good = example(good_fields());
  for (const Damage& damage : ints) {
    const std::string packed = feature(Kind::ints, delimited(1, damage.bytes));
    check_fault(good + example(entry("a", packed)), damage, 0);
    const std::string later = feature(Kind::ints, packed_ints({1}) + delimited(1, damage.bytes));
    check_fault(good + example(entry("a", later)), damage, 0);
    check_fault(good + delimited(2, list_entry("a", {"", packed})), damage, 3);
    check_fault(good + delimited(2, list_entry("a", {later})), damage, 3);
  }
  for (std::size_t size : {1, 2, 3, 5, 39}) {
    const Damage damage = {std::string(size, 'x'), 0, kBadFloats};
    const std::string packed = feature(Kind::floats, delimited(1, damage.bytes));
    check_fault(good + example(entry("f", packed)), damage, 1);
    check_fault(good + delimited(2, list_entry("f", {"", packed})), damage, 4);
  }
}

// Parts that are not read are not checked.
void test_unread_parts() {
  const ExampleParser context({ragged("a", Dtype::int64)});
  for (const Damage& damage : damages()) {
    const std::string other = entry("other", damage.bytes);
    CHECK(!explain_one(parser(), example(good_fields() + other)));
    CHECK(!explain_one(parser(), sequence(good_fields(), other)));
    CHECK(!explain_one(context, delimited(2, damage.bytes)));
    CHECK(!explain_one(context, delimited(2, entry("a", damage.bytes))));
    CHECK(!explain_one(parser(), delimited(2, entry("s", damage.bytes))));
  }
  CHECK(!explain_one(parser(), ""));
}

// The fault may lie in another feature than the one that showed it.
void test_faults_of_two_features() {
  const std::string late = entry("a", feature(Kind::ints, delimited(1, std::string(11, '\xff'))));
  const std::string early = entry("f", feature(Kind::floats, delimited(1, "abc")));
  const Parsed parsed = parse(parser(), example(late + early));
  if (!CHECK_EQ(parsed.failures.size(), 1U)) return;
  CHECK_EQ(parsed.failures[0].feature, 0U);
  CHECK_EQ(parsed.failures[0].reason, kBadVarint);
  // Of two columns of one stored feature, the failure names the one that was read.
  const ExampleParser two(
      {ragged("a", Dtype::float32), ragged("f", Dtype::float32), flat("f", Dtype::float32)});
  const Parsed refused = parse(two, example(early));
  if (CHECK_EQ(refused.failures.size(), 1U)) CHECK_EQ(refused.failures[0].feature, 1U);
}

// The parser rejects exactly the records that have an explanation: `parse` checks that. Here for
// records with one or two random bytes.
void test_random_damage() {
  std::mt19937 random(7);
  const std::string one = feature(Kind::ints, packed_ints({1, 300}));
  const std::string record =
      sequence(good_fields() + entry("a", feature(Kind::ints, unpacked_ints({1, 2}))),
               list_entry("a", {one, "", feature(Kind::ints, unpacked_ints({7})), one + one}) +
                   list_entry("f", {feature(Kind::floats, packed_floats({1, 2}))}) +
                   list_entry("a", {one}) + group(5, varint_field(1, 1)));
  CHECK(parse(parser(), record).good());
  int refused = 0;
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    std::string damaged = record;
    for (auto i = random() % 2; i < 2; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    refused += parse(parser(), damaged).good() ? 0 : 1;
  }
  CHECK(refused > kRounds / 4);
  CHECK(refused < kRounds);
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_outside_of_features();
  test_in_features();
  test_in_lists();
  test_values();
  test_unread_parts();
  test_faults_of_two_features();
  test_random_damage();
  return finish();
}
