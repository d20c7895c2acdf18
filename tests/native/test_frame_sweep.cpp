// The search for valid frames after damage, compared with a simple one; and CRCs of parts.
#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "repair.h"
#include "sweep_reference.h"
#include "wire/crc32c_ranges.h"

namespace tio::test {
namespace {

constexpr std::uint64_t kMost = 1 << 20;

std::string good_file() {
  return frame("") + frame("a") + frame(std::string(20, 'b')) + frame("") + frame("hello");
}

void check_all(const std::string& file, std::uint64_t most = kMost) {
  const Bytes stream = std::as_bytes(std::span(file));
  const Swept expected = reference_sweep(stream, most);
  for (const std::size_t size : {1, 7, 30, 1000}) {
    CHECK(sweep_in_windows(stream, most, size, true) == expected);
    CHECK(sweep_in_windows(stream, most, size, false) == expected);
  }
}

void test_every_flip() {
  for (std::size_t at = 0; at < good_file().size(); ++at) {
    std::string file = good_file();
    file[at] = static_cast<char>(file[at] ^ 0x10);
    check_all(file);
  }
}

void test_every_cut_insertion_and_removal() {
  const std::string good = good_file();
  for (std::size_t at = 0; at < good.size(); ++at) {
    check_all(good.substr(at));
    check_all(good.substr(0, at));
    check_all(good.substr(0, at) + "???" + good.substr(at));
    check_all(good.substr(0, at) + good.substr(std::min(at + 5, good.size())));
  }
}

void test_any_length() {
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{21}, std::uint64_t{1} << 32,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
    check_all(frame("..", length) + good_file());
    check_all(good_file() + frame("..", length));
    check_all(good_file() + frame("..", length) + good_file());
  }
}

void test_limit() {
  for (const std::uint64_t most : {0, 1, 5, 19, 20}) check_all(good_file(), most);
}

void test_crc_of_parts() {
  std::vector<std::byte> bytes(40'000);
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  CrcRanges ranges(bytes);
  for (const std::size_t begin : {0, 1, 4095, 4096, 4097, 20'000}) {
    for (const std::size_t end : {20'000, 20'001, 28'671, 28'672, 39'999, 40'000}) {
      const Bytes part = Bytes(bytes).subspan(begin, end - begin);
      CHECK_EQ(ranges.crc(begin, end), reference_crc32c(part));
    }
  }
  for (const std::size_t cut : {0, 1, 100, 39'999}) {
    const Bytes first = Bytes(bytes).first(cut);
    const Bytes second = Bytes(bytes).subspan(cut);
    CHECK_EQ(shift_crc(reference_crc32c(first), second.size()) ^ reference_crc32c(second),
             reference_crc32c(bytes));
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_every_flip();
  test_every_cut_insertion_and_removal();
  test_any_length();
  test_limit();
  test_crc_of_parts();
  return finish();
}
