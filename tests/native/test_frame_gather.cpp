// Gathering frames from blocks: the right bytes, missing records and damaged offsets.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "check.h"
#include "order/permutation.h"
#include "records/frame_gather.h"
#include "records/record_number.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;
using Content = std::vector<std::byte>;

Content content(std::size_t size, std::uint64_t key) {
  Content bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(key * 1000 + i));
  return bytes;
}

ReadPlan plan_of(Numbers numbers, Numbers starts, Numbers sizes) {
  ReadPlan plan;
  plan.numbers = std::move(numbers);
  plan.frame_starts = std::move(starts);
  plan.frame_sizes = std::move(sizes);
  return plan;
}

FrameBlock block_of(Bytes bytes, Numbers numbers, Numbers starts, Numbers sizes) {
  ReadPlan plan = plan_of(std::move(numbers), std::move(starts), std::move(sizes));
  return {std::make_shared<const ReadPlan>(std::move(plan)), bytes, nullptr};
}

// A block of records whose frames are in the order of their numbers, with gaps between them.
struct Block {
  Block(Numbers of, std::uint64_t key) : numbers(std::move(of)), bytes(content(200, key)) {
    std::int64_t at = 3;
    for (const std::int64_t number : numbers) {
      frame_starts.push_back(at);
      frame_sizes.push_back(number % 7);
      at += number % 7 + 2;
    }
  }
  FrameBlock view() const { return block_of(bytes, numbers, frame_starts, frame_sizes); }

  Numbers numbers;
  Content bytes;
  Numbers frame_starts;
  Numbers frame_sizes;
};

struct Wanted {
  void add(std::int64_t block, std::int64_t number) {
    blocks.push_back(block);
    plan.numbers.push_back(number);
    plan.frame_starts.push_back(plan.buffer_bytes);
    plan.frame_sizes.push_back(number % 7);
    plan.buffer_bytes += number % 7;
  }

  Numbers blocks;
  ReadPlan plan;
};

const Block kNeighbors({10, 11, 12, 13}, 1);
const Block kScattered({3, 20, 21, 40, 41}, 2);

void test_frames_of_blocks() {
  const FrameBlock stored[] = {kNeighbors.view(), kScattered.view()};
  const std::vector blocks = {&stored[0], &stored[1]};
  const Numbers block_numbers = {5, 9};
  Wanted wanted;
  Content expected;
  const auto add = [&](std::int64_t name, const Block& block, std::size_t at) {
    wanted.add(name, block.numbers[at]);
    wanted.plan.numbers.back() += static_cast<std::int64_t>(at) * kMostRecords;  // a repetition
    const auto from = block.bytes.begin() + block.frame_starts[at];
    expected.insert(expected.end(), from, from + block.frame_sizes[at]);
  };
  for (const std::size_t at : {3, 0, 2, 2}) {
    add(5, kNeighbors, at);
    add(9, kScattered, at + 1);
    wanted.add(7, 2);  // of another block: its bytes stay unchanged
    expected.insert(expected.end(), 2, std::byte{0});
  }
  Content out(expected.size());
  CHECK_EQ(gather_frames(blocks, block_numbers, wanted.plan, wanted.blocks, out), std::nullopt);
  CHECK(out == expected);
}

void test_frames_that_are_not_there() {
  const FrameBlock stored[] = {kNeighbors.view(), kScattered.view()};
  const std::vector blocks = {&stored[0], &stored[1]};
  const Numbers block_numbers = {5, 9};
  Content out(20);
  for (const std::int64_t number :
       {INT64_MIN, INT64_MIN + 9, std::int64_t{-1}, std::int64_t{9}, std::int64_t{14}, INT64_MAX}) {
    Wanted wanted;
    wanted.add(5, 12);
    wanted.add(5, number);
    CHECK_EQ_IN(gather_frames(blocks, block_numbers, wanted.plan, wanted.blocks, out), 1U, number);
  }
  for (const std::int64_t number : {2, 4, 19, 22, 39, 42}) {
    Wanted wanted;
    wanted.add(9, number);
    CHECK_EQ_IN(gather_frames(blocks, block_numbers, wanted.plan, wanted.blocks, out), 0U, number);
  }
  const FrameBlock nothing = block_of({}, {}, {}, {});
  const std::vector empty = {&nothing};
  Wanted wanted;
  wanted.add(0, 0);
  CHECK_EQ(gather_frames(empty, Numbers{0}, wanted.plan, wanted.blocks, out), 0U);
}

// Damaged numbers never lead outside of a buffer.
void test_frames_stay_inside() {
  const Numbers numbers = {1};
  const Content bytes(10);
  for (const std::int64_t bad : {INT64_MIN, std::int64_t{-1}, std::int64_t{7}, INT64_MAX}) {
    const Numbers inside = {6};
    const Numbers outside = {bad};
    const Numbers size = {4};
    const Numbers name = {0};
    Content out(10);
    const auto gather = [&](const Numbers& stored_starts, const Numbers& stored_sizes,
                            const Numbers& starts, const Numbers& sizes) {
      const FrameBlock block = block_of(bytes, numbers, stored_starts, stored_sizes);
      return gather_frames(std::vector{&block}, name, plan_of(numbers, starts, sizes), name, out);
    };
    CHECK_EQ_IN(gather(inside, size, inside, size), std::nullopt, bad);
    CHECK_EQ_IN(gather(inside, size, outside, size), 0U, bad);
    CHECK_EQ_IN(gather(inside, size, inside, outside), 0U, bad);
    CHECK_EQ_IN(gather(outside, size, inside, size), 0U, bad);
    CHECK_EQ_IN(gather(inside, outside, inside, outside), 0U, bad);
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_frames_of_blocks();
  test_frames_that_are_not_there();
  test_frames_stay_inside();
  return finish();
}
