// Reading and checking the frames of a batch: only valid frames, and nothing past the buffer.
#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "encode.h"
#include "file.h"
#include "records/framing.h"
#include "records/read_plan.h"
#include "repair.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// Three records. The last one is read before the other two.
struct Batch {
  std::string bytes = frame("ab") + frame("") + frame("cde");
  ReadPlan plan{.numbers = {1, 2, 0},
                .frame_sizes = {18, 16, 19},
                .frame_starts = {19, 37, 0},
                .files = {0},
                .range_bounds = {0, 2},
                .ranges = {{0, 34, 19}, {34, 19, 0}},
                .buffer_bytes = 53};

  bool is_valid(bool check_crcs) const {
    const File file(std::as_bytes(std::span(bytes)));
    const std::vector<int> fds = {file.fd()};
    std::vector<std::byte> buffer(53);  // of exactly that size, so that sanitizers see overruns
    return read_frames(plan, fds, buffer, check_crcs);
  }
};

void test_stored_bytes() {
  const ReadPlan plan = Batch().plan;
  CHECK(plan.stored_bytes(0, 3) == 53);
  CHECK(plan.stored_bytes(1, 3) == 35);
  CHECK(plan.stored_bytes(2, 9) == 19);
  CHECK(plan.stored_bytes(5, 2) == 0);
}

void test_valid_frames() {
  const Batch batch;
  CHECK(batch.is_valid(true));
  CHECK(batch.is_valid(false));
}

void test_every_byte_counts() {
  for (std::size_t i = 0; i < Batch().bytes.size(); ++i) {
    Batch batch;
    batch.bytes[i] = static_cast<char>(batch.bytes[i] ^ 1);
    CHECK(!batch.is_valid(true));
    // Without the checksums, only the lengths must be those of the plan.
    const std::size_t in_frame = i < 18 ? i : i < 34 ? i - 18 : i - 34;
    CHECK_EQ_IN(batch.is_valid(false), in_frame >= sizeof(std::uint64_t), i);
  }
}

void test_what_the_file_lacks() {
  for (std::size_t size = 0; size < Batch().bytes.size(); ++size) {
    Batch batch;
    batch.bytes.resize(size);
    CHECK(!batch.is_valid(true));
  }
}

void test_damaged_offsets_and_sizes() {
  for (std::size_t record = 0; record < 3; ++record) {
    for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 40, std::int64_t{53},
                                     std::int64_t{52}, std::int64_t{42}, INT64_MIN, INT64_MAX}) {
      Batch misplaced;
      misplaced.plan.frame_starts[record] = wrong;
      CHECK(!misplaced.is_valid(true));
      Batch resized;
      resized.plan.frame_sizes[record] = wrong;
      CHECK(!resized.is_valid(true));
    }
  }
}

void test_joined_reads() {
  const ReadPlan first = Batch().plan;
  ReadPlan second{.numbers = {7},
                  .frame_sizes = {20},
                  .frame_starts = {2},
                  .files = {0, 3},
                  .range_bounds = {0, 1, 2},
                  .ranges = {{60, 12, 0}, {5, 10, 12}},
                  .buffer_bytes = 22};
  const ReadPlan* const both[] = {&second, &first};
  const auto joined = join_reads(both);
  CHECK(joined.has_value());
  CHECK(joined->numbers.empty() && joined->frame_sizes.empty() && joined->frame_starts.empty());
  CHECK_EQ(joined->files, (Numbers{0, 3}));
  CHECK_EQ(joined->range_bounds, (Numbers{0, 3, 4}));
  CHECK_EQ(joined->buffer_bytes, 75);
  const Range expected[] = {{60, 12, 0}, {0, 34, 41}, {34, 19, 22}, {5, 10, 12}};
  CHECK(std::ranges::equal(joined->ranges, expected, [](const Range& a, const Range& b) {
    return a.offset == b.offset && a.size == b.size && a.target == b.target;
  }));
  CHECK(join_reads({})->ranges.empty());
  second.buffer_bytes = INT64_MAX;
  CHECK(!join_reads(both).has_value());
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_stored_bytes();
  test_valid_frames();
  test_every_byte_counts();
  test_what_the_file_lacks();
  test_damaged_offsets_and_sizes();
  test_joined_reads();
  return finish();
}
