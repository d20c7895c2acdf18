// Frames in blocks with checksums: only valid frames, from all blocks that they touch.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "encode.h"
#include "file.h"
#include "records/checked_frames.h"
#include "repair.h"

namespace tio::test {
namespace {

constexpr std::int64_t kBlock = 20;

// Two records, one of which is in two blocks, and bytes between them that are read, too.
struct Batch {
  std::string bytes = frame("ab") + "....." + frame("cde");
  ReadPlan plan{.numbers = {1, 2},
                .frame_sizes = {18, 19},
                .frame_starts = {0, 23},
                .files = {0},
                .range_bounds = {0, 1},
                .ranges = {{0, 42, 0}},
                .buffer_bytes = 42};
  std::vector<std::string> stored = {bytes.substr(0, 20), bytes.substr(20, 20), bytes.substr(40)};

  bool is_sound(bool check_crcs, std::size_t blocks = 3) const {
    std::vector<std::unique_ptr<File>> files;
    CheckedBlocks from{.files = {}, .block_bytes = kBlock};
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::string original = bytes.substr(20 * (i % 3), 20);
      files.push_back(std::make_unique<File>(std::as_bytes(std::span(stored[i % 3]))));
      from.files.push_back(std::make_shared<const CheckedFile>(
          CheckedFile{files.back()->fd(), static_cast<std::int64_t>(original.size()),
                      chunk_checksums(std::as_bytes(std::span(original)))}));
    }
    std::vector<std::byte> buffer(42);  // of exactly that size, so that sanitizers see overruns
    const bool good = read_checked_frames(from, plan, buffer, check_crcs);
    if (good) CHECK(std::ranges::equal(std::span(buffer).subspan(23), exact(frame("cde"))));
    return good;
  }
};

void test_sound_blocks() {
  CHECK(Batch().is_sound(true));
  CHECK(Batch().is_sound(false));
}

// With the checksums of records, what lies between them does not matter. Without them, the
// checksums of the blocks count.
void test_damage() {
  for (std::size_t i = 0; i < Batch().bytes.size(); ++i) {
    Batch batch;
    char& byte = batch.stored[i / 20][i % 20];
    byte = static_cast<char>(byte ^ 1);
    CHECK_EQ_IN(batch.is_sound(true), i >= 18 && i < 23, i);
    CHECK(!batch.is_sound(false));
  }
}

void test_missing_blocks() {
  for (const std::size_t blocks : {0, 1, 2, 4}) {
    CHECK(!Batch().is_sound(true, blocks));
    CHECK(!Batch().is_sound(false, blocks));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    Batch shorter;
    shorter.stored[i].pop_back();
    CHECK(!shorter.is_sound(true));
    CHECK(!shorter.is_sound(false));
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_sound_blocks();
  test_damage();
  test_missing_blocks();
  return finish();
}
