// Memory runs out at each allocation that finds records or memory for them: an exception,
// or the right result, and everything can be used again afterwards.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "image/jpeg_markers.h"
#include "image/png.h"
#include "memory/pool.h"
#include "memory/shared_slot.h"
#include "order/permutation.h"
#include "order/selection.h"
#include "records/framing.h"
#include "records/index_set.h"
#include "repair.h"
#include "timing/steps.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// ---- indexes ----

constexpr std::size_t kFrame = 20;

// An index of records that fill some pages, with gaps.
std::vector<std::byte> index_of(std::size_t records) {
  std::vector<std::uint64_t> starts(records);
  for (std::size_t i = 0; i < records; ++i) starts[i] = 8 + i * kFrame;
  const std::vector<Gap> gaps = {{0, 8}, {8 + records * kFrame, 9 + records * kFrame}};
  IndexHeader header;
  header.stream_end = 8 + records * kFrame;
  return encode_index(header, starts, gaps);
}

// Describes an index, or the reason why there is none.
std::string describe_index(const std::shared_ptr<const Index>& index, const std::string& reason) {
  if (index == nullptr) return reason;
  return std::to_string(index->stream_bytes()) + " " + std::to_string(index->gaps().size()) + " " +
         std::to_string(index->pages());
}

bool add_pieces(IndexScan& scan, Bytes file) {
  for (std::size_t at = 0; at < file.size(); at += 777) {
    if (!scan.add(file.subspan(at, std::min<std::size_t>(777, file.size() - at)))) return false;
  }
  return true;
}

void test_index() {
  const std::vector<std::byte> file = index_of(3000);
  const std::vector<std::byte> damaged(file.begin(), file.end() - 1);
  fail_each_allocation("encoding an index", [] { return index_of(3000); });
  for (const Bytes bytes : {Bytes(file), Bytes(damaged)}) {
    fail_each_allocation("opening an index", [&] {
      std::string reason;
      const auto index = Index::open(bytes, std::make_shared<int>(1), reason);
      return describe_index(index, reason);
    });
    fail_each_allocation("reading an index", [&] {
      IndexScan scan(file.size());
      add_pieces(scan, bytes);
      std::string reason;
      const auto index = scan.finish(reason);
      return describe_index(index, reason);
    });
  }
  const auto read_all = [&] {
    auto scan = std::make_shared<IndexScan>(file.size());
    CHECK(add_pieces(*scan, file));
    return scan;
  };
  fail_each_allocation("making a read index", read_all, [](const auto& scan) {
    std::string reason;
    const auto index = scan->finish(reason);
    return describe_index(index, reason);
  });
}

// A part of an index that was lost is an error, not another index.
void test_scan_afterwards() {
  const std::vector<std::byte> file = index_of(3000);
  std::size_t count = 1;
  for (std::size_t failing = 1; failing <= count; ++failing) {
    IndexScan scan(file.size());
    const auto add = [&] { return add_pieces(scan, file); };
    if (try_without_memory("reading on", failing, false, add, count)) continue;
    std::string reason;
    CHECK(!add_pieces(scan, file));
    CHECK(scan.finish(reason) == nullptr);
    CHECK_EQ(reason, "memory ran out while it was read");
  }
}

// Files with the offsets in memory, or read by pages.
class Files {
 public:
  // With few pages that are kept, each lookup replaces some.
  IndexSet open() const {
    const Numbers counts(kFiles, kRecords);
    return std::move(*IndexSet::open(counts, IndexSet::kLeastPages));
  }

  // Finds frames in any state of a set and a lookup.
  ReadPlan plan(IndexSet& set, FrameLookup& lookup) const {
    for (;;) {
      const Lookup found = set.find(lookup, 1);
      if (found == Lookup::unchecked) {
        for (const std::int64_t file : lookup.unchecked_files) check(set, file);
      } else if (found == Lookup::missing) {
        supply(set, lookup);
      } else {
        CHECK(found == Lookup::found && lookup.is_found());
        CHECK_EQ(lookup.locations().starts.size(), lookup.numbers.size());
        return lookup.plan(100).value();
      }
    }
  }

  void check(IndexSet& set, std::int64_t file) const {
    CHECK(set.mark_checked(static_cast<std::size_t>(file), file == 1 ? whole_ : paged_, 1));
  }

  static constexpr std::int64_t kFiles = 4;
  static constexpr std::int64_t kRecords = 5000;

 private:
  void supply(IndexSet& set, const FrameLookup& lookup) const {
    for (const MissingPages& missing : lookup.missing) {
      std::vector<std::byte> buffer(static_cast<std::size_t>(missing.bytes));
      copy_ranges(bytes_, missing.ranges, buffer);
      CHECK(set.add_pages(missing, buffer));
    }
  }

  std::shared_ptr<const Index> read_paged() const {
    std::string reason;
    IndexScan scan(bytes_.size());
    scan.add(bytes_);
    return scan.finish(reason);
  }

  std::string reason_;
  std::vector<std::byte> bytes_ = index_of(kRecords);
  std::shared_ptr<const Index> whole_ = Index::open(bytes_, nullptr, reason_);
  std::shared_ptr<const Index> paged_ = read_paged();
};

Numbers starts_of(const ReadPlan& plan) {
  Numbers all = plan.frame_starts;
  for (const Range& range : plan.ranges) all.insert(all.end(), {range.offset, range.size});
  return all;
}

void test_index_set() {
  const Files files;
  // In all files, on both sides of borders of pages.
  Numbers numbers;
  for (std::int64_t i = 0; i < 40; ++i)
    numbers.push_back(mix(static_cast<std::uint64_t>(i)) % 20000);
  numbers.insert(numbers.end(), {1023, 1024, 4999, 5000, 19999, 0});
  struct State {
    IndexSet set;
    FrameLookup lookup;
  };
  const auto make = [&] {
    auto state = std::make_shared<State>(files.open(), FrameLookup(numbers));
    files.check(state->set, 0);
    return state;
  };
  fail_each_allocation("finding frames", make, [&](const auto& state) {
    return starts_of(files.plan(state->set, state->lookup));
  });
  // A set that has pages already.
  IndexSet set = files.open();
  fail_each_allocation("finding more frames", [&] {
    FrameLookup lookup(numbers);
    return starts_of(files.plan(set, lookup));
  });
}

// ---- other parts ----

void test_framing() {
  const std::string good = frame("ab") + frame("") + frame("cde");
  const Numbers starts = {0, 18, 34};
  const Numbers lengths = {2, 0, 4};
  const auto bytes = std::as_bytes(std::span(good));
  fail_each_allocation("finding frames in bytes",
                       [&] { return scan_frames(bytes, 0, bytes.size()).starts; });
  fail_each_allocation("checking frames",
                       [&] { return check_frames(bytes, starts, lengths, true).at(0).first; });
}

void test_pool() {
  struct Block {
    explicit Block(std::size_t of) : memory(pool::allocate(of)), size(of) {
      std::memset(memory, 1, size);
    }
    ~Block() { pool::release(memory, size); }
    Block(const Block&) = delete;
    void* memory;
    std::size_t size;
  };
  std::size_t next = std::size_t{1} << 17;
  fail_each_allocation("the pool", [&] {
    // Sizes that the pool does not know yet: it needs memory to keep the blocks.
    next += next / 8;
    const auto first = std::make_unique<Block>(next % (std::size_t{1} << 25));
    const auto second = std::make_unique<Block>(100);
    return first->memory != second->memory && pool::kept_bytes() <= std::size_t{1} << 27;
  });
}

// A slot is not lent to a reader that got an exception.
void test_shared_slot() {
  alignas(64) std::array<std::byte, 256> memory{};
  SharedSlot slot(memory);
  const auto make = [&] {
    slot.release();
    CHECK(slot.take());
    return 0;
  };
  fail_each_allocation("lending a slot", make, [&](int) {
    auto loan = std::make_unique<SlotLoan>(slot, std::make_shared<int>(1));
    const bool was_lent = loan->begin() && !loan->begin() && !slot.take();
    loan.reset();
    return was_lent && slot.take();
  });
}

void test_selection() {
  const std::vector<std::uint64_t> words(40, 0xf0f0);
  fail_each_allocation("counting bits", [&] { return count_bits(words); });
}

void test_parts_that_allocate_nothing() {
  const std::vector<std::uint64_t> words(40, 0xf0f0);
  const Numbers counts = count_bits(words);
  std::vector<std::uint64_t> positions(1000, 5);
  std::vector<std::byte> rows(3 * 11);
  Numbers found(3);
  const Numbers wanted = {0, 5, 200};
  check_allocates_nothing("order", [&] {
    WindowPermutation(100, 10, 1).apply(positions);
    BlockPermutation(100, 10, 20, 1).apply(positions);
    const auto set = BitSet::open(words, counts);
    return set->select(wanted, found) && set->count_below(wanted, found);
  });
  check_allocates_nothing("images", [&] {
    return unfilter_png(rows, 10, 1) && read_jpeg_markers(rows, 1).fault.has_value();
  });
  check_allocates_nothing("steps", [] {
    Stopwatch stopwatch;
    stopwatch.start();
    for (int i = 0; i < 1000; ++i) enter_step(Counter::reading);
    for (int i = 0; i < 1000; ++i) leave_step();
    stopwatch.stop();
    return true;
  });
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_index();
  test_scan_afterwards();
  test_index_set();
  test_framing();
  test_pool();
  test_shared_slot();
  test_selection();
  test_parts_that_allocate_nothing();
  return finish();
}
