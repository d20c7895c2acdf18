// Many indexes as one: places and reads against the records' own offsets, damage, and threads.
#include <algorithm>
#include <thread>
#include <utility>

#include "check.h"
#include "records/index_set.h"
#include "order/permutation.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// Files of records of some sizes; the model that the set is held against.
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
      CHECK(set->take(i, indexes[i], epoch, reason));
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
  // Each record's frame lies whole in a range of its file.
  CHECK_EQ(plan.cuts.size(), plan.files.size() + 1);
  CHECK(std::ranges::is_sorted(plan.files));
  std::int64_t total = 0;
  std::size_t reads = 0;
  for (std::size_t file = 0; file < plan.files.size(); ++file) {
    std::int64_t last_end = -gap - 1;
    for (std::int64_t i = plan.cuts[file]; i < plan.cuts[file + 1]; ++i, ++reads) {
      const Range& range = plan.ranges[static_cast<std::size_t>(i)];
      CHECK_EQ(range.place, total);
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
    for (std::int64_t at = plan.cuts[found]; at < plan.cuts[found + 1]; ++at) {
      const Range& range = plan.ranges[static_cast<std::size_t>(at)];
      inside = inside || (range.offset <= frame.start && frame.end <= range.offset + range.size &&
                          plan.placed[i] - range.place == frame.start - range.offset);
    }
    CHECK_EQ_IN(inside, true, i);
    CHECK_EQ_IN(plan.sizes[i], frame.end - frame.start, i);
  }
}

void test_against_offsets() {
  const Files files({0, 30, 0, 0, 1, 200, 7, 0});
  const IndexSet set = files.open(3);
  CHECK_EQ(set.records(), static_cast<std::int64_t>(files.frames.size()));
  for (std::uint64_t round = 0; round < 200; ++round) {
    Numbers numbers = some_numbers(round, files.frames.size(), round);
    if (round % 3 == 0) std::ranges::sort(numbers);
    Numbers unseen;
    Places places;
    CHECK(set.locate(numbers, 3, places, unseen) == Found::all);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto& frame = files.frames[static_cast<std::size_t>(numbers[i])];
      CHECK_EQ_IN(places.files[i], frame.file, round);
      CHECK_EQ_IN(places.starts[i], frame.start, round);
    }
    const std::int64_t gap = static_cast<std::int64_t>(round) * 10 % 700;
    ReadPlan plan;
    CHECK(set.plan(numbers, 3, gap, plan, unseen) == Found::all);
    check_plan(files, numbers, gap, plan);
  }
}

void test_no_such_record() {
  const Files files({3, 4});
  const IndexSet set = files.open(1);
  for (const std::int64_t number : {INT64_MIN, std::int64_t{-1}, std::int64_t{7}, INT64_MAX}) {
    Numbers unseen;
    ReadPlan plan;
    const Numbers numbers = {2, number, 0};
    CHECK(set.plan(numbers, 1, 0, plan, unseen) == Found::no_such_record);
  }
  const auto empty = IndexSet::open({});
  Numbers unseen;
  Places places;
  CHECK(empty->locate(Numbers{0}, 1, places, unseen) == Found::no_such_record);
  CHECK(empty->locate(Numbers{}, 1, places, unseen) == Found::all);
  CHECK(!IndexSet::open(Numbers{1, -1}));
  CHECK(!IndexSet::open(Numbers{INT64_MAX, 1}));
  CHECK(IndexSet::open(Numbers{INT64_MAX, 0}).has_value());
}

// An index that was not looked at in the epoch is not touched: here there are no bytes of it.
void test_unseen_files() {
  const Files files({3, 4, 5});
  auto set = IndexSet::open(files.counts);
  std::string reason;
  const Numbers numbers = {11, 0, 10, 2};
  Numbers unseen;
  ReadPlan plan;
  CHECK(set->plan(numbers, 1, 0, plan, unseen) == Found::unseen);
  CHECK_EQ(unseen, (Numbers{0, 2}));
  CHECK(set->take(2, files.indexes[2], 1, reason));
  unseen.clear();
  CHECK(set->plan(numbers, 1, 0, plan, unseen) == Found::unseen);
  CHECK_EQ(unseen, (Numbers{0}));
  CHECK(set->take(0, files.indexes[0], 1, reason));
  unseen.clear();
  plan = {};
  CHECK(set->plan(numbers, 1, 0, plan, unseen) == Found::all);
  check_plan(files, numbers, 0, plan);
  Places places;
  CHECK(set->locate(numbers, 2, places, unseen) == Found::unseen);
  CHECK_EQ(unseen, (Numbers{0, 2}));
}

void test_indexes_that_do_not_fit() {
  const Files files({3, 4});
  auto set = IndexSet::open(files.counts);
  std::string reason;
  CHECK(!set->take(0, files.indexes[1], 1, reason));
  CHECK_EQ(reason, "it has another number of records");
  CHECK(!set->take(0, Bytes(files.indexes[0]).first(79), 1, reason));
  CHECK(!set->is_seen(0, 1));
}

// Entries that contradict themselves, under a header that is sound: each is refused or gives reads
// that lie where they say.
void test_damaged_entries() {
  for (std::uint64_t round = 0; round < 3000; ++round) {
    Files files({20, 20});
    auto& bytes = files.indexes[round % 2];
    for (std::uint64_t i = 0; i <= round % 4; ++i) {
      const std::uint64_t at = 80 + mix(round * 7 + i) % (bytes.size() - 80);
      bytes[at] = static_cast<std::byte>(mix(round + i));
    }
    const IndexSet set = files.open(1);
    Numbers unseen;
    ReadPlan plan;
    const Numbers numbers = some_numbers(15, 40, round);
    const Found found = set.plan(numbers, 1, 50, plan, unseen);
    if (found == Found::damaged) continue;
    CHECK(found == Found::all);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK_EQ_IN(plan.sizes[i] >= 0 && plan.placed[i] >= 0 &&
                      plan.placed[i] + plan.sizes[i] <= plan.buffer_bytes,
                  true, round);
    }
    for (const Range& range : plan.ranges) {
      CHECK_EQ_IN(range.size >= 0 && range.place + range.size <= plan.buffer_bytes, true, round);
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
        Numbers unseen;
        ReadPlan plan;
        const Found found = set->plan(numbers, 1, 10, plan, unseen);
        done = found == Found::all;
        if (done) check_plan(files, numbers, 10, plan);
      }
    });
  }
  std::string reason;
  for (std::size_t i = 0; i < files.counts.size(); ++i) set->take(i, files.indexes[i], 1, reason);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_against_offsets();
  test_no_such_record();
  test_unseen_files();
  test_indexes_that_do_not_fit();
  test_damaged_entries();
  test_threads_ask_while_files_are_taken();
  return finish();
}
