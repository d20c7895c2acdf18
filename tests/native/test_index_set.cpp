// Many indexes as one set: locations and reads compared with the offsets of the records, damage,
// and threads.
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "check.h"
#include "order/permutation.h"
#include "records/index_set.h"
#include "records/record_number.h"

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
      indexes.push_back(encode_index(header, starts));
      counts.push_back(static_cast<std::int64_t>(of[file]));
    }
  }

  // Every second index is read by pages.
  std::shared_ptr<Index> index(std::size_t file) const {
    const Bytes bytes(indexes[file]);
    std::string reason;
    if (file % 2 == 0) return Index::open(bytes, nullptr, reason);
    IndexScan scan(bytes.size());
    scan.add(bytes);
    return scan.finish(reason);
  }

  IndexSet open(std::uint64_t epoch, std::size_t most_pages = IndexSet::kMostPages) const {
    auto set = IndexSet::open(counts, most_pages);
    for (std::size_t i = 0; i < counts.size(); ++i) CHECK(set->mark_checked(i, index(i), epoch));
    return std::move(*set);
  }

  // Reads the pages that a lookup needs.
  void supply(IndexSet& set, const FrameLookup& lookup) const {
    for (const MissingPages& missing : lookup.missing) {
      std::vector<std::byte> buffer(static_cast<std::size_t>(missing.bytes));
      copy_ranges(indexes[static_cast<std::size_t>(missing.file)], missing.ranges, buffer);
      CHECK(set.add_pages(missing, buffer));
    }
  }

  FrameLookup find(IndexSet& set, const Numbers& numbers, std::uint64_t epoch) const {
    FrameLookup lookup(numbers);
    Lookup found = set.find(lookup, epoch);
    while (found == Lookup::missing) {
      supply(set, lookup);
      found = set.find(lookup, epoch);
    }
    CHECK(found == Lookup::found && lookup.is_found());
    return lookup;
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
  IndexSet set = files.open(3);
  CHECK_EQ(set.records(), static_cast<std::int64_t>(files.frames.size()));
  for (std::uint64_t round = 0; round < 200; ++round) {
    Numbers numbers = some_numbers(round, files.frames.size(), round);
    if (round % 3 == 0) std::ranges::sort(numbers);
    const FrameLookup lookup = files.find(set, numbers, 3);
    const FrameLocations locations = lookup.locations();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto& frame = files.frames[static_cast<std::size_t>(numbers[i])];
      CHECK_EQ_IN(locations.files[i], frame.file, round);
      CHECK_EQ_IN(locations.starts[i], frame.start, round);
      CHECK_EQ_IN(locations.ends[i], frame.end, round);
    }
    const std::int64_t gap = static_cast<std::int64_t>(round) * 10 % 700;
    check_plan(files, numbers, gap, *lookup.plan(gap));
  }
}

void test_no_such_record() {
  const Files files({3, 4});
  const IndexSet set = files.open(1);
  for (const std::int64_t number : {INT64_MIN, std::int64_t{-1}, std::int64_t{7}, INT64_MAX}) {
    FrameLookup lookup(Numbers{2, number, 0});
    CHECK(set.find(lookup, 1) == Lookup::no_such_record);
  }
  const auto empty = IndexSet::open({});
  FrameLookup one(Numbers{0});
  CHECK(empty->find(one, 1) == Lookup::no_such_record);
  FrameLookup none(Numbers{});
  CHECK(empty->find(none, 1) == Lookup::found);
  CHECK(!IndexSet::open(Numbers{1, -1}));
  CHECK(!IndexSet::open(Numbers{kMostRecords, 1}));
  CHECK(IndexSet::open(Numbers{kMostRecords, 0}).has_value());
}

// The index of a file that was not checked in the epoch is not read: here it has no bytes.
void test_unchecked_files() {
  const Files files({3, 4, 5});
  auto set = IndexSet::open(files.counts);
  FrameLookup lookup(Numbers{11, 0, 10, 2});
  CHECK(set->find(lookup, 1) == Lookup::unchecked);
  CHECK_EQ(lookup.unchecked_files, (Numbers{0, 2}));
  CHECK(set->mark_checked(2, files.index(2), 1));
  CHECK(set->find(lookup, 1) == Lookup::unchecked);
  CHECK_EQ(lookup.unchecked_files, (Numbers{0}));
  CHECK(set->mark_checked(0, files.index(0), 1));
  CHECK(set->find(lookup, 1) == Lookup::found);
  check_plan(files, lookup.numbers, 0, *lookup.plan(0));
  FrameLookup later(lookup.numbers);
  CHECK(set->find(later, 2) == Lookup::unchecked);
  CHECK_EQ(later.unchecked_files, (Numbers{0, 2}));
}

void test_indexes_that_do_not_fit() {
  const Files files({3, 4});
  auto set = IndexSet::open(files.counts);
  CHECK(!set->mark_checked(0, files.index(1), 1));
  CHECK(!set->is_checked(0, 1));
}

// The set shares an index, and drops an index that is not used.
void test_indexes_are_owned() {
  const Files files({3});
  auto set = IndexSet::open(files.counts);
  auto first = files.index(0);
  auto second = files.index(0);
  std::weak_ptr<Index> kept = first;
  std::weak_ptr<Index> dropped = second;
  CHECK(set->mark_checked(0, std::move(first), 1));
  CHECK(set->mark_checked(0, std::move(second), 2));
  CHECK(!kept.expired());
  CHECK(dropped.expired());
  check_plan(files, {2, 0}, 0, *files.find(*set, {2, 0}, 2).plan(0));
  set.reset();
  CHECK(kept.expired());
}

// Far more pages than are kept, in lookups that need all of them.
void test_pages_are_replaced() {
  const Files files({3, 20'000, 5, 9'000});
  for (const std::size_t most : {std::size_t{0}, std::size_t{5}, std::size_t{100}}) {
    IndexSet set = files.open(1, most);
    for (std::uint64_t round = 0; round < 3; ++round) {
      const Numbers numbers = some_numbers(3000, files.frames.size(), round);
      check_plan(files, numbers, 9, *files.find(set, numbers, 1).plan(9));
    }
  }
}

void test_pages_that_differ() {
  const Files files({3, 3000});
  IndexSet set = files.open(1);
  FrameLookup lookup(Numbers{2000});
  CHECK(set.find(lookup, 1) == Lookup::missing);
  CHECK(!lookup.is_found());
  const MissingPages& missing = lookup.missing.at(0);
  CHECK(missing.pages.size() == 1);
  std::vector<std::byte> buffer(static_cast<std::size_t>(missing.bytes));
  CHECK(!set.add_pages(missing, buffer));
  copy_ranges(files.indexes[1], missing.ranges, buffer);
  CHECK(!set.add_pages(missing, Bytes(buffer).first(buffer.size() - 1)));
  CHECK(!set.add_pages(missing, {}));
  CHECK(set.find(lookup, 1) == Lookup::missing);
  CHECK(set.add_pages(lookup.missing.at(0), buffer));
  CHECK(set.find(lookup, 1) == Lookup::found);
}

// Entries in memory that change after they were checked: each is rejected, or the reads lie inside
// the buffer.
void test_damaged_entries() {
  for (std::uint64_t round = 0; round < 3000; ++round) {
    Files files({20, 20});
    IndexSet set = files.open(1);
    auto& bytes = files.indexes[0];
    for (std::uint64_t i = 0; i <= round % 4; ++i) {
      const std::uint64_t at = 104 + mix(round * 7 + i) % (bytes.size() - 104);
      bytes[at] = static_cast<std::byte>(mix(round + i));
    }
    const Numbers numbers = some_numbers(15, 20, round);
    FrameLookup lookup(numbers);
    if (set.find(lookup, 1) == Lookup::damaged) {
      CHECK(lookup.damaged_file == 0);
      continue;
    }
    const ReadPlan plan = *lookup.plan(50);
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

// Repetitions of a record are one read. The plan has their numbers.
void test_repetitions() {
  const Files files({30, 200});
  IndexSet set = files.open(1);
  for (std::uint64_t round = 0; round < 100; ++round) {
    const Numbers own = some_numbers(round, files.frames.size(), round);
    Numbers numbers = own;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto repetition = static_cast<std::int64_t>(mix(round * 100 + i) % (1U << 23));
      numbers[i] += repetition * kMostRecords;
      CHECK_EQ_IN(own_number(numbers[i]), own[i], round);
    }
    const ReadPlan plan = *files.find(set, numbers, 1).plan(10);
    check_plan(files, own, 10, plan);
    CHECK(plan.numbers == numbers);
    CHECK_EQ(plan.ranges.size(), files.find(set, own, 1).plan(10)->ranges.size());
  }
}

void test_threads_ask_while_files_are_taken() {
  const Files files(std::vector<std::size_t>(50, 1500));
  auto set = IndexSet::open(files.counts, 8);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const Numbers numbers = some_numbers(100, files.frames.size(), i);
      FrameLookup lookup(numbers);
      for (Lookup found{}; (found = set->find(lookup, 1)) != Lookup::found;) {
        if (found == Lookup::missing) files.supply(*set, lookup);
      }
      check_plan(files, numbers, 10, *lookup.plan(10));
    });
  }
  for (std::size_t i = 0; i < files.counts.size(); ++i) set->mark_checked(i, files.index(i), 1);
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
  test_pages_are_replaced();
  test_pages_that_differ();
  test_damaged_entries();
  test_repetitions();
  test_threads_ask_while_files_are_taken();
  return finish();
}
