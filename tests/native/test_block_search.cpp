// The search for deflate blocks: all positions of made-up headers, against a slow reference.
#include <array>
#include <optional>
#include <random>
#include <vector>

#include "check.h"
#include "deflate/block_search.h"

namespace tio::test {
namespace {

// Writes bits, the lowest first.
struct BitWriter {
  std::vector<std::byte> bytes;
  std::uint64_t size = 0;

  void add(std::uint64_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i, ++size) {
      if (size % 8 == 0) bytes.push_back(std::byte{0});
      if ((value >> i & 1) != 0) bytes.back() |= static_cast<std::byte>(1U << size % 8);
    }
  }
};

// Adds the header of an empty block with codes of its own: two literals with codes of one bit.
void add_header(BitWriter& out) {
  constexpr std::array order = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1};
  out.add(4, 3);
  out.add(0, 10);
  out.add(order.size() - 4, 4);
  for (const int symbol : order) {
    out.add(symbol == 1 ? 1 : symbol == 0 || symbol == 18 ? 2 : 0, 3);
  }
  out.add(3, 2);
  out.add(138 - 11, 7);
  out.add(3, 2);
  out.add(117 - 11, 7);
  out.add(0, 3);
}

void test_dynamic_block_at_every_bit() {
  for (unsigned at = 0; at < 200; ++at) {
    BitWriter out;
    for (unsigned i = 0; i < at; ++i) out.add(1, 1);  // starts a last block: none is found
    add_header(out);
    const std::uint64_t end = out.size;
    for (unsigned i = 0; i < 64; ++i) out.add(1, 1);
    CHECK_EQ(find_deflate_block(out.bytes, 0, end).value_or(9999), at);
    CHECK_EQ(find_deflate_block(out.bytes, at, at + 1).value_or(9999), at);
    CHECK(!find_deflate_block(out.bytes, 0, at));
    CHECK(!find_deflate_block(out.bytes, at + 1, end));
    // A header that is cut is not found.
    const Bytes cut = Bytes(out.bytes).first((end - 1) / 8);
    CHECK(!find_deflate_block(cut, 0, cut.size() * 8));
  }
}

void test_stored_block_at_every_byte() {
  for (std::size_t at = 1; at < 40; ++at) {
    std::vector<std::byte> data(at, std::byte{0xff});
    data.back() = std::byte{0x1f};  // the last three bits are the header
    for (const int byte : {0x34, 0x12, 0xcb, 0xed, 0xff, 0xff}) {
      data.push_back(static_cast<std::byte>(byte));
    }
    CHECK_EQ(find_deflate_block(data, 0, data.size() * 8).value_or(9999), at * 8 - 3);
    CHECK(!find_deflate_block(data, at * 8 - 2, data.size() * 8));
    CHECK(!find_deflate_block(Bytes(data).first(at + 3), 0, 9999));
    data[at - 1] = std::byte{0x3f};
    CHECK(!find_deflate_block(data, 0, data.size() * 8));
  }
}

// Whatever the bytes are, a search from a bit finds what a search from each bit alone finds.
void test_random_bytes() {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> data(random() % 4000);
    for (auto& byte : data) byte = static_cast<std::byte>(random());
    const std::uint64_t begin = random() % 100;
    const auto found = find_deflate_block(data, begin, data.size() * 8);
    std::optional<std::uint64_t> expected;
    for (std::uint64_t bit = begin; bit < data.size() * 8 && !expected; ++bit) {
      expected = find_deflate_block(data, bit, bit + 1);
    }
    CHECK(found == expected);
  }
  CHECK(!find_deflate_block({}, 0, 100));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;  // NOLINT
  test_dynamic_block_at_every_bit();
  test_stored_block_at_every_byte();
  test_random_bytes();
  return finish();
}
