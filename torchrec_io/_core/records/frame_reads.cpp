#include "records/frame_reads.h"

#include "records/framing.h"

namespace tio {

bool read_sound_frames(const FrameReads& reads, bool check_data, std::uint64_t& waits) {
  const Reading reading = read_ranges(reads.fds, reads.cuts, reads.ranges, reads.buffer);
  waits += reading.waits;
  if (reading.error != 0) return false;
  for (std::size_t i = 0; i < reads.placed.size(); ++i) {
    const auto start = static_cast<std::uint64_t>(reads.placed[i]);
    const auto length = static_cast<std::uint64_t>(reads.lengths[i]);
    if (check_frame(reads.buffer, start, length, check_data) != FrameFault::none) return false;
  }
  return true;
}

}  // namespace tio
