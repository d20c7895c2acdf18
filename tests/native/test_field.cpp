// Skipping of fields, including groups.
#include "check.h"
#include "encode.h"
#include "wire/field.h"

namespace tio::test {
namespace {

// Returns whether exactly `field` is skipped, and nothing after it.
bool skips(const std::string& field) {
  const auto bytes = exact(field + "\x08\x01");
  Cursor cursor(bytes);
  std::uint32_t tag = 0;
  return cursor.read_tag(tag) && wire::skip_field(cursor, tag) && cursor.remaining() == 2;
}

bool skips_at_end(const std::string& field) {
  const auto bytes = exact(field);
  Cursor cursor(bytes);
  std::uint32_t tag = 0;
  return cursor.read_tag(tag) && wire::skip_field(cursor, tag) && cursor.done();
}

std::vector<std::string> valid_fields() {
  return {
      varint_field(3, 7),
      varint_field(3, ~std::uint64_t{0}),
      field_tag(4, wire::fixed64) + "12345678",
      field_tag(5, wire::fixed32) + "1234",
      delimited(6, "abc"),
      delimited(6, ""),
      delimited(6, std::string(300, 'x')),
      field_tag(7, wire::varint, 5) + varint(1, 10),
      field_tag(0x1fffffff, wire::varint) + varint(1),
      group(8, ""),
      group(8, varint_field(1, 2) + delimited(2, "x") + group(8, group(9, "")) + group(1, "")),
      group(8, field_tag(4, wire::fixed64) + "12345678" + field_tag(4, wire::fixed32) + "1234"),
      field_tag(8, wire::group, 3) + field_tag(8, wire::end_group, 5),
  };
}

void test_valid_fields() {
  for (const auto& field : valid_fields()) {
    CHECK_EQ_IN(skips(field), true, field);
    CHECK_EQ_IN(skips_at_end(field), true, field);
  }
}

void test_every_cut() {
  for (const auto& field : valid_fields()) {
    for (std::size_t size = 0; size < field.size(); ++size) {
      CHECK_EQ_IN(skips_at_end(field.substr(0, size)), false, field);
    }
  }
}

void test_invalid_fields() {
  for (const auto& field : {
           raw({0x0e}),  // wire type 6
           raw({0x0f}),  // wire type 7
           raw({0x0c}),  // a group's end without start
           field_tag(8, wire::group) + field_tag(9, wire::end_group),  // of another group
           field_tag(8, wire::group) + group(9, "") + raw({0x0c}),     // the same, one level in
           group(8, raw({0x0e})),                                      // wire type 6 inside
           group(8, raw({0x00, 0x01})),                                // field number 0 inside
           group(8, field_tag(1, wire::varint) + std::string(11, '\x80')),  // 11-byte varint inside
           field_tag(6, wire::delimited) + varint(0x80000000) + "abc",
           field_tag(3, wire::varint) + std::string(10, '\x80') + '\0',
       }) {
    CHECK_EQ_IN(skips(field), false, field);
    CHECK_EQ_IN(skips_at_end(field), false, field);
  }
}

void test_depth() {
  CHECK(skips(nested_groups(1)));
  CHECK(skips(nested_groups(100)));
  CHECK(!skips(nested_groups(101)));
  CHECK(!skips(std::string(100000, '\x1b')));  // only starts
  // The depth counts open groups, not closed ones.
  std::string siblings;
  for (int i = 0; i < 300; ++i) siblings += nested_groups(99);
  CHECK(skips(group(3, siblings)));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_valid_fields();
  test_every_cut();
  test_invalid_fields();
  test_depth();
  return finish();
}
