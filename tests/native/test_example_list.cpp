// Lists of examples: the locations of their parts, and the failures of damaged records.
#include "batch.h"
#include "check.h"
#include "encode.h"
#include "example/example_list.h"

namespace tio::test {
namespace {

using Ints = std::vector<std::int64_t>;

std::string part(const std::string& record, std::int64_t at, std::int64_t size) {
  return record.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

const std::string kOne = example(ints_entry("a", {1}));
const std::string kTwo = example(ints_entry("a", {2, 300}));

void test_parts() {
  const std::string list = delimited(1, kOne) + delimited(2, kTwo) + delimited(1, "");
  const ListParts parts = split_lists(apart({"", list, delimited(1, kTwo)}).records);
  CHECK(parts.failures.empty());
  CHECK_EQ(parts.example_splits, (Ints{0, 0, 2, 3}));
  CHECK_EQ(part(list, parts.example_offsets[0], parts.example_sizes[0]), kOne);
  CHECK_EQ(parts.example_offsets[1], static_cast<std::int64_t>(list.size()));
  CHECK_EQ(parts.example_sizes[1], 0);
  CHECK_EQ(parts.context_records, (Ints{1}));
  CHECK_EQ(part(list, parts.context_offsets[0], parts.context_sizes[0]), kTwo);
}

void test_repeated_context() {
  const ListParts parts = split_lists(apart({delimited(2, kOne) + delimited(2, kTwo)}).records);
  CHECK_EQ(parts.context_records, (Ints{0, 0}));
  CHECK_EQ(parts.context_sizes[1], static_cast<std::int64_t>(kTwo.size()));
}

// Other fields, and these fields with other wire types, are skipped as protobuf skips unknown
// fields.
void test_unknown_fields() {
  const std::string list = varint_field(1, 5) + group(2, delimited(1, kOne)) + delimited(3, kOne) +
                           field_tag(2, wire::fixed32) + "abcd" + delimited(1, kTwo);
  const ListParts parts = split_lists(apart({list}).records);
  CHECK(parts.failures.empty());
  CHECK(parts.context_records.empty());
  CHECK_EQ(parts.example_splits, (Ints{0, 1}));
  CHECK_EQ(part(list, parts.example_offsets[0], parts.example_sizes[0]), kTwo);
}

// A damaged record has no parts. The other records keep theirs.
void check_damage(const std::string& damage, const std::string& reason) {
  const std::string start = delimited(1, kOne) + delimited(2, kTwo);
  const ListParts parts = split_lists(apart({start, start + damage, start}).records);
  CHECK_EQ_IN(parts.failures.size(), 1U, reason);
  CHECK_EQ_IN(parts.failures[0].record, 1U, reason);
  CHECK_EQ(parts.failures[0].offset, start.size());
  CHECK_EQ(parts.failures[0].reason, reason);
  CHECK_EQ_IN(parts.example_splits, (Ints{0, 1, 1, 2}), reason);
  CHECK_EQ_IN(parts.context_records, (Ints{0, 2}), reason);
  CHECK_EQ_IN(parts.example_sizes.size(), 2U, reason);
  CHECK_EQ_IN(parts.context_offsets, (Ints{parts.context_offsets[0], parts.context_offsets[0]}),
              reason);
}

void test_damage() {
  check_damage(raw({0x0a, 5, 0}), "the length of a field extends past the end of its message");
  check_damage(raw({0x8a}), "a field tag is truncated");
  check_damage(raw({0x02, 1}), "a field tag has an invalid field number");
  check_damage(raw({0x18, 0x80}), "a varint is truncated or longer than 10 bytes");
  check_damage(raw({0x1d, 1}), "a fixed-size number is truncated");
  check_damage(raw({0x0c}), "a group ends without a matching start");
  check_damage(nested_groups(101),
               "a group is invalid, not closed, or nested deeper than 100 levels");
  check_damage(raw({0x0e, 1}), "a field has an invalid wire type");
}

// A truncated record is either damaged or shorter. Nothing outside of it is read.
void test_cuts() {
  const std::string list = delimited(1, kOne) + delimited(2, kTwo) + delimited(1, kTwo);
  for (std::size_t size = 0; size < list.size(); ++size) {
    const ListParts parts = split_lists(apart({list.substr(0, size)}).records);
    const bool whole = size == 0 || size == delimited(1, kOne).size() ||
                       size == list.size() - delimited(1, kTwo).size();
    CHECK_EQ_IN(parts.failures.empty(), whole, size);
    for (std::size_t i = 0; i < parts.example_offsets.size(); ++i) {
      CHECK(parts.example_offsets[i] + parts.example_sizes[i] <= static_cast<std::int64_t>(size));
    }
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_parts();
  test_repeated_context();
  test_unknown_fields();
  test_damage();
  test_cuts();
  return finish();
}
