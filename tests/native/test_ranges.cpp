// Reading and copying many ranges: against slices of what is there, and what must be refused.
#include <vector>

#include "check.h"
#include "file.h"
#include "order/permutation.h"
#include "records/ranges.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;
using Content = std::vector<std::byte>;

Content content(std::size_t size, std::uint64_t key) {
  Content bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(key * 1000 + i));
  return bytes;
}

void test_ranges_of_several_files() {
  const Content first = content(1000, 1);
  const Content last = content(10, 2);
  const File a(first);
  const File b(last);
  const std::vector<int> fds = {a.fd(), b.fd(), b.fd()};
  const Numbers cuts = {1, 3, 3, 4};  // the first range is not asked for, nor are any of the second
  const std::vector<Range> ranges = {{0, 5, 0}, {990, 10, 20}, {0, 20, 0}, {4, 6, 30}};
  Content out(36);
  const Reading reading = read_ranges(fds, cuts, ranges, out);
  CHECK_EQ(reading.error, 0);
  Content expected(first.begin(), first.begin() + 20);
  expected.insert(expected.end(), first.begin() + 990, first.end());
  expected.insert(expected.end(), last.begin() + 4, last.end());
  CHECK(out == expected);
}

void test_a_file_that_ends_early_and_one_that_is_not_open() {
  const File file(content(10, 1));
  const std::vector<Range> ranges = {{0, 5, 0}, {5, 5, 0}, {5, 6, 0}, {0, 5, 0}};
  Content out(6);
  Reading reading = read_ranges(std::vector{file.fd()}, Numbers{0, 4}, ranges, out);
  CHECK_EQ(reading.error, -1);
  CHECK_EQ(reading.failed, 2U);
  reading = read_ranges(std::vector{file.fd(), -1}, Numbers{0, 2, 3}, ranges, out);
  CHECK_EQ(reading.error, EBADF);
  CHECK_EQ(reading.failed, 2U);
}

// A block of records whose frames lie in the order of their numbers, with gaps between them.
struct Block {
  Block(Numbers of, std::uint64_t key) : numbers(std::move(of)), bytes(content(200, key)) {
    std::int64_t at = 3;
    for (const std::int64_t number : numbers) {
      placed.push_back(at);
      sizes.push_back(number % 7);
      at += number % 7 + 2;
    }
  }
  FrameBlock view() const { return {bytes, numbers, placed, sizes}; }

  Numbers numbers;
  Content bytes;
  Numbers placed;
  Numbers sizes;
};

struct Wanted {
  void add(std::int64_t block, std::int64_t number) {
    blocks.push_back(block);
    numbers.push_back(number);
    placed.push_back(end);
    sizes.push_back(number % 7);
    end += number % 7;
  }
  WantedFrames view() const { return {numbers, blocks, placed, sizes}; }

  Numbers blocks;
  Numbers numbers;
  Numbers placed;
  Numbers sizes;
  std::int64_t end = 0;
};

const Block kNeighbours({10, 11, 12, 13}, 1);
const Block kScattered({3, 20, 21, 40, 41}, 2);

void test_frames_of_blocks() {
  const std::vector<FrameBlock> blocks = {kNeighbours.view(), kScattered.view()};
  const Numbers names = {5, 9};
  Wanted wanted;
  Content expected;
  const auto add = [&](std::int64_t name, const Block& block, std::size_t at) {
    wanted.add(name, block.numbers[at]);
    const auto from = block.bytes.begin() + block.placed[at];
    expected.insert(expected.end(), from, from + block.sizes[at]);
  };
  for (const std::size_t at : {3, 0, 2, 2}) {
    add(5, kNeighbours, at);
    add(9, kScattered, at + 1);
    wanted.add(7, 2);  // of a block that is not there: its place stays as it is
    expected.insert(expected.end(), 2, std::byte{0});
  }
  Content out(expected.size());
  CHECK_EQ(copy_frames(blocks, names, wanted.view(), out), wanted.numbers.size());
  CHECK(out == expected);
}

void test_frames_that_are_not_there() {
  const std::vector<FrameBlock> blocks = {kNeighbours.view(), kScattered.view()};
  const Numbers names = {5, 9};
  Content out(20);
  for (const std::int64_t number :
       {INT64_MIN, INT64_MIN + 9, std::int64_t{-1}, std::int64_t{9}, std::int64_t{14}, INT64_MAX}) {
    Wanted wanted;
    wanted.add(5, 12);
    wanted.add(5, number);
    CHECK_EQ_IN(copy_frames(blocks, names, wanted.view(), out), 1U, number);
  }
  for (const std::int64_t number : {2, 4, 19, 22, 39, 42}) {
    Wanted wanted;
    wanted.add(9, number);
    CHECK_EQ_IN(copy_frames(blocks, names, wanted.view(), out), 0U, number);
  }
  const std::vector<FrameBlock> empty = {{}};
  Wanted wanted;
  wanted.add(0, 0);
  CHECK_EQ(copy_frames(empty, Numbers{0}, wanted.view(), out), 0U);
}

// Numbers that come from elsewhere never lead outside a buffer.
void test_frames_stay_inside() {
  const Numbers numbers = {1};
  const Content bytes(10);
  for (const std::int64_t bad : {INT64_MIN, std::int64_t{-1}, std::int64_t{7}, INT64_MAX}) {
    const Numbers inside = {6};
    const Numbers outside = {bad};
    const Numbers size = {4};
    const Numbers name = {0};
    Content out(10);
    const std::vector<FrameBlock> sound = {{bytes, numbers, inside, size}};
    CHECK_EQ_IN(copy_frames(sound, name, {numbers, name, inside, size}, out), 1U, bad);
    CHECK_EQ_IN(copy_frames(sound, name, {numbers, name, outside, size}, out), 0U, bad);
    CHECK_EQ_IN(copy_frames(sound, name, {numbers, name, inside, outside}, out), 0U, bad);
    const std::vector<FrameBlock> misplaced = {{bytes, numbers, outside, size}};
    CHECK_EQ_IN(copy_frames(misplaced, name, {numbers, name, inside, size}, out), 0U, bad);
    const std::vector<FrameBlock> missized = {{bytes, numbers, inside, outside}};
    CHECK_EQ_IN(copy_frames(missized, name, {numbers, name, inside, outside}, out), 0U, bad);
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_ranges_of_several_files();
  test_a_file_that_ends_early_and_one_that_is_not_open();
  test_frames_of_blocks();
  test_frames_that_are_not_there();
  test_frames_stay_inside();
  return finish();
}
