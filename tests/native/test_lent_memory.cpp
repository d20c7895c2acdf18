// Frames that are copied from lent memory: the bytes of one batch, all of them, and nothing else.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "encode.h"
#include "records/lent_memory.h"
#include "repair.h"

namespace tio::test {
namespace {

constexpr std::int64_t kBegin = 100;  // of the batch, behind another one

// A batch of two records, whose bytes lie in three pieces of memory.
struct Batch {
  std::vector<std::byte> first = exact(frame("before")), second = exact(frame("ab") + frame("cde"));
  ReadPlan plan{.numbers = {1, 2},
                .frame_sizes = {18, 19},
                .frame_starts = {0, 18},
                .files = {0},
                .range_bounds = {0, 2},
                .ranges = {{0, 20, 0}, {30, 17, 20}},
                .buffer_bytes = 37};
  std::vector<LentMemory::Piece> pieces = {{first, kBegin - 22},
                                           {Bytes(second).first(5), kBegin},
                                           {Bytes(second).subspan(5, 15), kBegin + 5},
                                           {Bytes(second).subspan(20), kBegin + 20},
                                           {first, kBegin + 37}};

  bool is_sound(bool check_crcs = true, std::int64_t begin = kBegin) const {
    auto memory = std::make_shared<LentMemory>();
    memory->pieces = pieces;
    std::vector<std::byte> buffer(37);  // of exactly that size, so that sanitizers see overruns
    const bool good = copy_checked_frames({std::move(memory), begin}, plan, buffer, check_crcs);
    if (good) CHECK(std::ranges::equal(buffer, second));
    return good;
  }
};

void test_pieces_become_frames() {
  CHECK(Batch().is_sound());
  CHECK(Batch().is_sound(false));
}

void test_every_byte_counts() {
  for (std::size_t i = 0; i < Batch().second.size(); ++i) {
    Batch batch;
    batch.second[i] ^= std::byte{1};
    CHECK(!batch.is_sound());
  }
}

// A buffer is used again, and may hold frames that are sound.
void test_missing_bytes() {
  for (std::size_t i = 1; i < 4; ++i) {
    Batch batch;
    batch.pieces.erase(batch.pieces.begin() + static_cast<std::ptrdiff_t>(i));
    auto memory = std::make_shared<LentMemory>();
    memory->pieces = batch.pieces;
    std::vector<std::byte> buffer = batch.second;
    CHECK(!copy_checked_frames({std::move(memory), kBegin}, batch.plan, buffer, true));
  }
}

void test_places_outside_of_the_buffer() {
  for (const std::int64_t wrong :
       {std::int64_t{1}, std::int64_t{16}, std::int64_t{17}, INT64_MAX - kBegin - 20}) {
    Batch batch;
    batch.pieces[3].target += wrong;
    CHECK(!batch.is_sound());
  }
  for (const std::int64_t begin : {std::int64_t{0}, kBegin - 1, kBegin + 1, INT64_MAX}) {
    CHECK(!Batch().is_sound(true, begin));
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_pieces_become_frames();
  test_every_byte_counts();
  test_missing_bytes();
  test_places_outside_of_the_buffer();
  return finish();
}
