// Every path of CRC-32C, compared with the published vectors and a bitwise division.
#include <numeric>
#include <string>
#include <vector>

#include "check.h"
#include "encode.h"
#include "reference.h"
#include "wire/crc32c.h"

namespace tio::test {
namespace {

std::vector<CrcPath> paths() {
  std::vector<CrcPath> all = {CrcPath::portable};
  if (best_crc_path() == CrcPath::hardware) all.push_back(CrcPath::hardware);
  return all;
}

std::vector<std::byte> noise(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// RFC 3720, appendix B.4.
void test_published_vectors() {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  const std::string descending(ascending.rbegin(), ascending.rend());
  const std::string read_command =
      raw({0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
           0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
           0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0});
  for (const CrcPath path : paths()) {
    CHECK_EQ(crc32c({}, 0, path), 0U);
    CHECK_EQ(crc32c(exact("123456789"), 0, path), 0xe3069283U);
    CHECK_EQ(crc32c(exact(std::string(32, '\0')), 0, path), 0x8a9136aaU);
    CHECK_EQ(crc32c(exact(std::string(32, '\xff')), 0, path), 0x62a8ab43U);
    CHECK_EQ(crc32c(exact(ascending), 0, path), 0x46dd794eU);
    CHECK_EQ(crc32c(exact(descending), 0, path), 0x113fdb5cU);
    CHECK_EQ(crc32c(exact(read_command), 0, path), 0xd9963a56U);
  }
}

// The hardware path runs three lanes of 128 or of 2,048 bytes: lengths on both sides of 384 and
// 6,144.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all(301);
  std::iota(all.begin(), all.end(), 0);
  for (const std::size_t middle : {384, 768, 6144, 6144 + 384, 12288, 20000}) {
    for (std::size_t length = middle - 9; length <= middle + 9; ++length) all.push_back(length);
  }
  return all;
}

void test_lengths_and_alignments() {
  const auto data = noise(20100);
  for (const std::size_t length : lengths()) {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      const Bytes bytes = Bytes(data).subspan(offset, length);
      const std::uint32_t wanted = reference_crc32c(bytes);
      for (const CrcPath path : paths()) CHECK_EQ_IN(crc32c(bytes, 0, path), wanted, length);
    }
  }
}

void test_pieces() {
  for (const std::size_t length : {0, 1, 7, 8, 17, 64, 300, 400, 6200}) {
    const auto data = noise(length);
    const std::uint32_t wanted = reference_crc32c(data);
    for (const CrcPath path : paths()) {
      for (std::size_t split = 0; split <= length; ++split) {
        const std::uint32_t first = crc32c(Bytes(data).first(split), 0, path);
        CHECK_EQ_IN(crc32c(Bytes(data).subspan(split), first, path), wanted, split);
      }
    }
  }
}

void test_mask() {
  CHECK_EQ(mask_crc(0), 0xa282ead8U);  // the footer of an empty record
  const auto data = noise(100);
  CHECK_EQ(mask_crc(crc32c(data)), reference_masked_crc(data));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_published_vectors();
  test_lengths_and_alignments();
  test_pieces();
  test_mask();
  return finish();
}
