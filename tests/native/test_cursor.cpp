// The bounds-checked cursor: the values that it reads, and that it never reads past the end.
#include <limits>

#include "check.h"
#include "encode.h"
#include "reference.h"
#include "wire/cursor.h"

namespace tio::test {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

void test_varints_of_every_length() {
  for (unsigned size = 1; size <= 10; ++size) {
    const unsigned bits = size == 10 ? 64 : 7 * size;
    const std::uint64_t largest = kMax >> (64 - bits);
    const std::uint64_t smallest = size == 1 ? 0 : std::uint64_t{1} << (7 * (size - 1));
    for (const std::uint64_t value :
         {smallest, largest, largest - smallest / 3, std::uint64_t{1}}) {
      const std::string spelled = varint(value, size);  // overlong for the last one
      CHECK_EQ(spelled.size(), size);
      const auto bytes = exact(spelled);
      Cursor cursor(bytes);
      std::uint64_t read = 0;
      CHECK(cursor.read_varint(read));
      CHECK_EQ(read, value);
      CHECK(cursor.done());
      for (std::size_t cut = 0; cut < size; ++cut) {
        const auto shorter = exact(spelled.substr(0, cut));
        Cursor short_cursor(shorter);
        CHECK(!short_cursor.read_varint(read));
        CHECK(short_cursor.position() <= cut);
      }
    }
  }
}

void test_varint_limits() {
  std::uint64_t read = 0;
  // Ten bytes have 70 bits. The upper six are dropped.
  const auto dropped = exact(std::string(9, '\xff') + '\x7f');
  Cursor ten(dropped);
  CHECK(ten.read_varint(read));
  CHECK_EQ(read, kMax);
  for (const char last : {'\x00', '\x01', '\xff'}) {
    const auto bytes = exact(std::string(10, '\x80') + last);
    Cursor eleven(bytes);
    CHECK(!eleven.read_varint(read));
  }
}

bool reads_tag(const std::string& spelled, std::uint32_t& value) {
  const auto bytes = exact(spelled);
  Cursor cursor(bytes);
  return cursor.read_tag(value) && cursor.done();
}

void test_tags() {
  std::uint32_t value = 0;
  CHECK(reads_tag(raw({0x0a}), value));
  CHECK_EQ(value, 10U);
  CHECK(reads_tag(raw({0x8a, 0x00}), value));
  CHECK_EQ(value, 10U);
  CHECK(reads_tag(varint(10, 5), value));
  CHECK_EQ(value, 10U);
  CHECK(!reads_tag(varint(10, 6), value));
  CHECK(reads_tag(varint(0xffffffff), value));  // the largest field number, with an invalid type
  CHECK_EQ(value, 0xffffffffU);
  CHECK(!reads_tag(varint(0x100000000), value));
  CHECK(!reads_tag(varint(0x10000000a), value));
  for (std::uint64_t type = 0; type < 8; ++type) {
    CHECK(!reads_tag(varint(type), value));  // field number 0
    CHECK(!reads_tag(varint(type, 3), value));
    CHECK(reads_tag(varint(8 | type), value));  // types are checked when fields are skipped
  }
  for (std::size_t cut = 0; cut < 5; ++cut) {
    CHECK(!reads_tag(varint(10, 5).substr(0, cut), value));
  }
}

void test_delimited() {
  const auto bytes = exact(varint(3) + "abc" + varint(0) + varint(2, 5) + "de" + varint(2) + "f");
  Cursor cursor(bytes);
  Bytes out;
  CHECK(cursor.read_delimited(out));
  CHECK_EQ(out.size(), 3U);
  CHECK_EQ(load<char>(out, 2), 'c');
  CHECK(cursor.read_delimited(out));
  CHECK(out.empty());
  CHECK(cursor.read_delimited(out));
  CHECK_EQ(out.size(), 2U);
  CHECK(!cursor.read_delimited(out));  // a length of two, but only one byte
}

void test_delimited_limits() {
  Bytes out;
  for (const std::string& length :
       {varint(2, 6), varint(3), varint(kMax), varint(kMax - 1), varint(std::uint64_t{1} << 63),
        varint(std::uint64_t{1} << 32), varint((std::uint64_t{1} << 32) + 2, 5), varint(0x80000000),
        std::string()}) {
    const auto bytes = exact(length + "ab");
    Cursor cursor(bytes);
    if (length.empty()) CHECK(cursor.skip(2));
    CHECK_EQ_IN(cursor.read_delimited(out), false, length);
  }
}

void test_fixed_reads() {
  const auto bytes = exact(little_endian<std::uint32_t>(0x04030201) + "12345678");
  Cursor cursor(bytes);
  std::uint32_t word = 0;
  std::uint64_t wide = 0;
  Bytes out;
  CHECK(cursor.read(word));
  CHECK_EQ(word, 0x04030201U);
  CHECK(!cursor.skip(9));
  CHECK(!cursor.skip(kMax));
  CHECK(!cursor.read_bytes(9, out));
  CHECK(!cursor.read_bytes(kMax, out));
  CHECK_EQ(cursor.position(), 4U);  // a failed read does not move the cursor
  CHECK(cursor.skip(1));
  CHECK(!cursor.read(wide));
  CHECK_EQ(cursor.remaining(), 7U);
  CHECK(cursor.read_bytes(7, out));
  CHECK(cursor.done());
  CHECK(!cursor.read(word));
  CHECK(cursor.skip(0));
  CHECK(cursor.read_bytes(0, out));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_varints_of_every_length();
  test_varint_limits();
  test_tags();
  test_delimited();
  test_delimited_limits();
  test_fixed_reads();
  return finish();
}
