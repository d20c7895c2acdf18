// Many indexes as one set: locations and reads compared with the offsets of the records, damage,
// and threads.
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "check.h"
#include "order/permutation.h"
#include "records/index_set.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// Files of records of some sizes; the model that the set is compared with.
struct Files {
  explicit Files(const std::vector<std::size_t>& of) {
    for (std::size_t file = 0; file < of.size(); ++file) {
      std::vector<std::uint64_t> starts;
      std::uint64_t at = 0;
      for (std::size_t i = 0; i < of[file]; ++i) {
        starts.push_back(at);
        const std::uint64_t size = 16 + mix(file * 1000 + i) % 100;
        frames.push_back({static_cast<std::int64_t>(file), static_cast<std::int64_t>(at),
                          static_cast<std::int64_t>(at + size)});
        at += size;
      }
      IndexHeader header;
      header.stream_end = at;
      indexes.push_back(encode_index(header, starts, {}));
      counts.push_back(static_cast<std::int64_t>(of[file]));
    }
  }

  IndexSet open(std::uint64_t epoch) const {
    auto set = IndexSet::open(counts);
    std::string reason;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      CHECK(set->mark_checked(i, indexes[i], nullptr, epoch, reason));
    }
    return std::move(*set);
  }

  struct Frame {
    std::int64_t file, start, end;
  };
  std::vector<Frame> frames;
  std::vector<std::vector<std::byte>> indexes;
  Numbers counts;
};

Numbers some_numbers(std::size_t count, std::size_t below, std::uint64_t key) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<std::int64_t>(mix(key * 100 + i) % below);
  }
  return numbers;
}

void check_plan(const Files& files, const Numbers& numbers, std::int64_t gap,
                const ReadPlan& plan) {
  // The frame of each record lies inside a range of its file.
  CHECK_EQ(plan.range_bounds.size(), plan.files.size() + 1);
  CHECK(std::ranges::is_sorted(plan.files));
  std::int64_t total = 0;
  std::size_t reads = 0;
  for (std::size_t file = 0; file < plan.files.size(); ++file) {
    std::int64_t last_end = -gap - 1;
    for (std::int64_t i = plan.range_bounds[file]; i < plan.range_bounds[file + 1]; ++i, ++reads) {
      const Range& range = plan.ranges[static_cast<std::size_t>(i)];
      CHECK_EQ(range.target, total);
      CHECK(range.offset - last_end > gap);
      total += range.size;
      last_end = range.offset + range.size;
    }
  }
  CHECK_EQ(reads, plan.ranges.size());
  CHECK_EQ(total, plan.buffer_bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& frame = files.frames[static_cast<std::size_t>(numbers[i])];
    const auto found = std::ranges::find(plan.files, frame.file) - plan.files.begin();
    bool inside = false;
    for (std::int64_t at = plan.range_bounds[found]; at < plan.range_bounds[found + 1]; ++at) {
      const Range& range = plan.ranges[static_cast<std::size_t>(at)];
      inside = inside || (range.offset <= frame.start && frame.end <= range.offset + range.size &&
                          plan.frame_starts[i] - range.target == frame.start - range.offset);
    }
    CHECK_EQ_IN(inside, true, i);
    CHECK_EQ_IN(plan.frame_sizes[i], frame.end - frame.start, i);
  }
}

void test_against_offsets() {
  const Files files({0, 30, 0, 0, 1, 200, 7, 0});
  const IndexSet set = files.open(3);
  CHECK_EQ(set.records(), static_cast<std::int64_t>(files.frames.size()));
  for (std::uint64_t round = 0; round < 200; ++round) {
    Numbers numbers = some_numbers(round, files.frames.size(), round);
    if (round % 3 == 0) std::ranges::sort(numbers);
    FrameLocations locations;
    CHECK(set.locate(numbers, 3, locations) == Lookup::found);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto& frame = files.frames[static_cast<std::size_t>(numbers[i])];
      CHECK_EQ_IN(locations.files[i], frame.file, round);
      CHECK_EQ_IN(locations.starts[i], frame.start, round);
    }
    const std::int64_t gap = static_cast<std::int64_t>(round) * 10 % 700;
    ReadPlan plan;
    CHECK(set.plan(numbers, 3, gap, plan) == Lookup::found);
    check_plan(files, numbers, gap, plan);
  }
}

void test_no_such_record() {
  const Files files({3, 4});
  const IndexSet set = files.open(1);
  for (const std::int64_t number : {INT64_MIN, std::int64_t{-1}, std::int64_t{7}, INT64_MAX}) {
    ReadPlan plan;
    const Numbers numbers = {2, number, 0};
    CHECK(set.plan(numbers, 1, 0, plan) == Lookup::no_such_record);
  }
  const auto empty = IndexSet::open({});
  FrameLocations locations;
  CHECK(empty->locate(Numbers{0}, 1, locations) == Lookup::no_such_record);
  CHECK(empty->locate(Numbers{}, 1, locations) == Lookup::found);
  CHECK(!IndexSet::open(Numbers{1, -1}));
  CHECK(!IndexSet::open(Numbers{INT64_MAX, 1}));
  CHECK(IndexSet::open(Numbers{INT64_MAX, 0}).has_value());
}

// The index of a file that was not checked in the epoch is not read: here it has no bytes.
void test_unchecked_files() {
  const Files files({3, 4, 5});
  auto set = IndexSet::open(files.counts);
  std::string reason;
  const Numbers numbers = {11, 0, 10, 2};
  ReadPlan plan;
  CHECK(set->plan(numbers, 1, 0, plan) == Lookup::unchecked);
  CHECK_EQ(plan.unchecked_files, (Numbers{0, 2}));
  CHECK(set->mark_checked(2, files.indexes[2], nullptr, 1, reason));
  plan = {};
  CHECK(set->plan(numbers, 1, 0, plan) == Lookup::unchecked);
  CHECK_EQ(plan.unchecked_files, (Numbers{0}));
  CHECK(set->mark_checked(0, files.indexes[0], nullptr, 1, reason));
  plan = {};
  CHECK(set->plan(numbers, 1, 0, plan) == Lookup::found);
  check_plan(files, numbers, 0, plan);
  FrameLocations locations;
  CHECK(set->locate(numbers, 2, locations) == Lookup::unchecked);
  CHECK_EQ(locations.unchecked_files, (Numbers{0, 2}));
}

void test_indexes_that_do_not_fit() {
  const Files files({3, 4});
  auto set = IndexSet::open(files.counts);
  std::string reason;
  CHECK(!set->mark_checked(0, files.indexes[1], nullptr, 1, reason));
  CHECK_EQ(reason, "it has another number of records");
  CHECK(!set->mark_checked(0, Bytes(files.indexes[0]).first(79), nullptr, 1, reason));
  CHECK(!set->is_checked(0, 1));
}

// The set shares the owner of an index, and drops the owner of an index that is not used.
void test_indexes_are_owned() {
  const Files files({3});
  auto set = IndexSet::open(files.counts);
  std::string reason;
  auto first = std::make_shared<std::vector<std::byte>>(files.indexes[0]);
  auto second = std::make_shared<std::vector<std::byte>>(files.indexes[0]);
  std::weak_ptr<std::vector<std::byte>> kept = first;
  std::weak_ptr<std::vector<std::byte>> dropped = second;
  CHECK(set->mark_checked(0, *first, first, 1, reason));
  CHECK(set->mark_checked(0, *second, second, 2, reason));
  first.reset();
  second.reset();
  CHECK(!kept.expired());
  CHECK(dropped.expired());
  ReadPlan plan;
  CHECK(set->plan(Numbers{2, 0}, 2, 0, plan) == Lookup::found);
  check_plan(files, {2, 0}, 0, plan);
  set.reset();
  CHECK(kept.expired());
}

// Entries that contradict themselves, with a valid header: each is rejected, or the reads lie
// inside the buffer.
void test_damaged_entries() {
  for (std::uint64_t round = 0; round < 3000; ++round) {
    Files files({20, 20});
    auto& bytes = files.indexes[round % 2];
    for (std::uint64_t i = 0; i <= round % 4; ++i) {
      const std::uint64_t at = 80 + mix(round * 7 + i) % (bytes.size() - 80);
      bytes[at] = static_cast<std::byte>(mix(round + i));
    }
    const IndexSet set = files.open(1);
    ReadPlan plan;
    const Numbers numbers = some_numbers(15, 40, round);
    const Lookup lookup = set.plan(numbers, 1, 50, plan);
    if (lookup == Lookup::damaged) continue;
    CHECK(lookup == Lookup::found);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK_EQ_IN(plan.frame_sizes[i] >= 0 && plan.frame_starts[i] >= 0 &&
                      plan.frame_starts[i] + plan.frame_sizes[i] <= plan.buffer_bytes,
                  true, round);
    }
    for (const Range& range : plan.ranges) {
      CHECK_EQ_IN(range.size >= 0 && range.target + range.size <= plan.buffer_bytes, true, round);
    }
  }
}

void test_threads_ask_while_files_are_taken() {
  const Files files(std::vector<std::size_t>(50, 20));
  auto set = IndexSet::open(files.counts);
  const Numbers numbers = some_numbers(100, files.frames.size(), 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (bool done = false; !done;) {
        ReadPlan plan;
        const Lookup lookup = set->plan(numbers, 1, 10, plan);
        done = lookup == Lookup::found;
        if (done) check_plan(files, numbers, 10, plan);
      }
    });
  }
  std::string reason;
  for (std::size_t i = 0; i < files.counts.size(); ++i)
    set->mark_checked(i, files.indexes[i], nullptr, 1, reason);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_against_offsets();
  test_no_such_record();
  test_unchecked_files();
  test_indexes_that_do_not_fit();
  test_indexes_are_owned();
  test_damaged_entries();
  test_threads_ask_while_files_are_taken();
  return finish();
}
