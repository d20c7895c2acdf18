// Reading ranges of files with checksums of their chunks: the right bytes, and any damage.
#include <algorithm>
#include <memory>
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

// Ranges that are within a block, end with one, extend over several, or are empty.
void test_blocks() {
  constexpr std::int64_t kBlock = 5000;
  const Content bytes = content();
  std::vector<Content> blocks;
  for (std::size_t begin = 0; begin < kSize; begin += kBlock) {
    const std::size_t end = std::min(kSize, begin + kBlock);
    blocks.emplace_back(bytes.begin() + begin, bytes.begin() + end);
  }
  std::vector<std::unique_ptr<File>> files;
  std::vector<CheckedFile> checked;
  for (const Content& block : blocks) {
    files.push_back(std::make_unique<File>(block));
    checked.push_back(
        {files.back()->fd(), static_cast<std::int64_t>(block.size()), chunk_checksums(block)});
  }
  checked[1].checksums[0] ^= 1U;
  const auto size = static_cast<std::int64_t>(kSize);
  const std::vector<Range> wanted = {
      {10, 20, 0}, {0, 5000, 20}, {7, 0, 5020}, {4990, 20, 5020}, {9990, size - 9990, 5040}};
  const std::vector<std::int64_t> numbers = block_numbers(wanted, kBlock);
  CHECK(numbers == std::vector<std::int64_t>({0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  std::vector<const CheckedFile*> chosen;
  for (const std::int64_t number : numbers) {
    chosen.push_back(&checked[static_cast<std::size_t>(number)]);
  }
  Content out(5040 + kSize - 9990);
  const std::vector<std::size_t> failed = read_blocks(chosen, wanted, kBlock, out);
  CHECK(failed == std::vector<std::size_t>({3}));  // the second chunk of the block is right
  for (const Range& range : {wanted[0], wanted[1], wanted[4]}) {
    CHECK(std::equal(bytes.begin() + range.offset, bytes.begin() + range.offset + range.size,
                     out.begin() + range.target));
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_any_range();
  test_damage();
  test_files_that_are_shorter_or_not_open();
  test_blocks();
  return finish();
}
