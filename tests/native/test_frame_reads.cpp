// Reading and checking the frames of a batch in one go: sound ones only, and never past the buffer.
#include <string>
#include <vector>

#include "check.h"
#include "encode.h"
#include "file.h"
#include "records/frame_reads.h"
#include "records/framing.h"
#include "repair.h"

namespace tio::test {
namespace {

using Numbers = std::vector<std::int64_t>;

// Three records; the reads bring the last before the first two.
struct Batch {
  std::string bytes = frame("ab") + frame("") + frame("cde");
  Numbers cuts = {0, 2};
  std::vector<Range> ranges = {{0, 34, 19}, {34, 19, 0}};
  Numbers placed = {19, 37, 0};
  Numbers lengths = {2, 0, 3};

  bool is_sound(bool check_data, std::size_t room = 53) const {
    const File file(std::as_bytes(std::span(bytes)));
    const std::vector<int> fds = {file.fd()};
    std::vector<std::byte> buffer(room);  // of just that size: sanitizers see what is beyond
    std::uint64_t waits = 0;
    return read_sound_frames({fds, cuts, ranges, placed, lengths, buffer}, check_data, waits);
  }
};

void test_sound_frames() {
  const Batch batch;
  CHECK(batch.is_sound(true));
  CHECK(batch.is_sound(false));
}

void test_every_byte_counts() {
  for (std::size_t i = 0; i < Batch().bytes.size(); ++i) {
    Batch batch;
    batch.bytes[i] = static_cast<char>(batch.bytes[i] ^ 1);
    CHECK(!batch.is_sound(true));
    // Without the checksums of data, those of lengths still count.
    const std::size_t in_frame = i < 18 ? i : i < 34 ? i - 18 : i - 34;
    CHECK_EQ_IN(batch.is_sound(false), in_frame >= kFrameHeaderBytes, i);
  }
}

void test_what_the_file_lacks() {
  for (std::size_t size = 0; size < Batch().bytes.size(); ++size) {
    Batch batch;
    batch.bytes.resize(size);
    CHECK(!batch.is_sound(true));
  }
}

void test_places_that_lie() {
  for (std::size_t record = 0; record < 3; ++record) {
    for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 40, std::int64_t{53},
                                     std::int64_t{52}, std::int64_t{42}, INT64_MIN, INT64_MAX}) {
      Batch misplaced;
      misplaced.placed[record] = wrong;
      CHECK(!misplaced.is_sound(true));
      Batch resized;
      resized.lengths[record] = wrong;
      CHECK(!resized.is_sound(true));
    }
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_sound_frames();
  test_every_byte_counts();
  test_what_the_file_lacks();
  test_places_that_lie();
  return finish();
}
