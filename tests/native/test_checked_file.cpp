// Reading ranges of files with checksums of their chunks: the right bytes, and any damage.
#include <algorithm>
#include <vector>

#include "check.h"
#include "file.h"
#include "order/permutation.h"
#include "records/checked_file.h"

namespace tio::test {
namespace {

using Content = std::vector<std::byte>;

constexpr std::size_t kSize = 12 * kChunkBytes + 700;

Content content() {
  Content bytes(kSize);
  for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(mix(i));
  return bytes;
}

// Offsets and sizes around the ends of chunks, and of the file.
std::vector<Range> ranges() {
  std::vector<Range> found;
  const auto chunk = static_cast<std::int64_t>(kChunkBytes);
  const auto size = static_cast<std::int64_t>(kSize);
  for (const std::int64_t begin : {0L, 1L, chunk - 1, chunk, 5 * chunk + 9, size - 1, size}) {
    for (const std::int64_t length : {0L, 1L, chunk, 6 * chunk, 6 * chunk + 1, 8 * chunk, size}) {
      if (length <= size - begin) found.push_back({begin, length, 0});
    }
    found.push_back({begin, size - begin, 0});
  }
  return found;
}

void test_any_range() {
  const Content bytes = content();
  const File file(bytes);
  const CheckedFile checked{file.fd(), kSize, chunk_checksums(bytes)};
  CHECK_EQ(checked.checksums.size(), 13U);
  for (const Range& range : ranges()) {
    Content out(static_cast<std::size_t>(range.size));
    CHECK(checked.read(range.offset, out));
    CHECK(out == Content(bytes.begin() + range.offset, bytes.begin() + range.offset + range.size));
  }
}

void test_damage() {
  const Content bytes = content();
  for (const std::size_t at : {std::size_t{0}, 3 * kChunkBytes, 7 * kChunkBytes - 1, kSize - 1}) {
    Content damaged = bytes;
    damaged[at] ^= std::byte{1};
    const File file(damaged);
    const CheckedFile checked{file.fd(), kSize, chunk_checksums(bytes)};
    for (const Range& range : ranges()) {
      if (range.size == 0) continue;
      const auto first = static_cast<std::size_t>(range.offset) / kChunkBytes;
      const auto last = static_cast<std::size_t>(range.offset + range.size - 1) / kChunkBytes;
      Content out(static_cast<std::size_t>(range.size));
      CHECK_EQ(checked.read(range.offset, out),
               at / kChunkBytes < first || at / kChunkBytes > last);
    }
  }
}

void test_files_that_are_shorter_or_not_open() {
  const Content bytes = content();
  const std::vector<std::uint32_t> checksums = chunk_checksums(bytes);
  const File part(Content(bytes.begin(), bytes.begin() + 2 * kChunkBytes + 1));
  const CheckedFile shorter{part.fd(), kSize, checksums};
  const CheckedFile none{-1, kSize, checksums};
  const CheckedFile nothing{part.fd(), 0, {}};
  Content out(8192);
  CHECK(shorter.read(0, out));
  CHECK(!shorter.read(8190, MutableBytes(out).first(4)));
  CHECK(!none.read(0, MutableBytes(out).first(1)));
  CHECK(nothing.read(0, MutableBytes(out).first(0)));
  CHECK(!nothing.read(0, MutableBytes(out).first(1)));
  CHECK(!shorter.read(-1, MutableBytes(out).first(1)));
  CHECK(!shorter.read(static_cast<std::int64_t>(kSize), MutableBytes(out).first(1)));
}

void test_several_ranges() {
  const Content bytes = content();
  const File file(bytes);
  CheckedFile checked{file.fd(), kSize, chunk_checksums(bytes)};
  const auto size = static_cast<std::int64_t>(kSize);
  const std::vector<Range> wanted = {{10, 20, 0}, {7, 0, 20}, {5000, size - 5000, 20}};
  Content out(20 + kSize - 5000);
  CHECK(read_checked(checked, wanted, out));
  for (const Range& range : wanted) {
    CHECK(std::equal(bytes.begin() + range.offset, bytes.begin() + range.offset + range.size,
                     out.begin() + range.target));
  }
  checked.checksums[12] ^= 1U;
  CHECK(!read_checked(checked, wanted, out));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_any_range();
  test_damage();
  test_files_that_are_shorter_or_not_open();
  test_several_ranges();
  return finish();
}
