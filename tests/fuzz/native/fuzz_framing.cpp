// Compares the scan of frames with a simple implementation, over any bytes in any windows.
//
// Input: options, end of the first window (2 bytes), start of the stream (1 byte), the stream.
#include <algorithm>
#include <limits>
#include <vector>

#include "records/framing.h"
#include "reference.h"
#include "repair.h"
#include "require.h"

namespace tio::fuzz {
namespace {

constexpr std::uint64_t kUnknownEnd = std::numeric_limits<std::uint64_t>::max();

struct Options {
  bool repair_lengths;
  bool repair_data;
  bool unknown_end;
  bool late;  // the stream starts near the largest offset
  bool check_lengths;
};

struct Frame {
  std::uint64_t start;
  std::uint64_t length;
};

struct Walk {
  std::vector<Frame> frames;
  std::uint64_t next = 0;
  std::optional<FrameFault> fault;
};

// 128 bits, so that nothing wraps around.
__extension__ using Wide = unsigned __int128;

Walk reference_walk(Bytes stream, std::uint64_t offset, std::uint64_t stream_end,
                    bool check_lengths) {
  Walk walk;
  Wide at = 0;
  while (at + 12 <= stream.size()) {
    const auto here = static_cast<std::size_t>(at);
    const auto length = load<std::uint64_t>(stream, here);
    walk.next = offset + here;
    if (check_lengths && test::reference_masked_crc(stream.subspan(here, 8)) !=
                             load<std::uint32_t>(stream, here + 8)) {
      walk.fault = FrameFault::length_crc;
      return walk;
    }
    if (at + offset + 16 + length > stream_end) {
      walk.fault = FrameFault::past_end;
      return walk;
    }
    walk.frames.push_back({offset + here, length});
    at += Wide{16} + length;
  }
  walk.next = static_cast<std::uint64_t>(at + offset);
  return walk;
}

void require_same(const FrameScan& scan, const Walk& walk) {
  require(scan.fault == walk.fault, "another fault");
  require(scan.next == walk.next, "another next offset");
  require(scan.starts.size() == walk.frames.size(), "another number of frames");
  for (std::size_t i = 0; i < walk.frames.size(); ++i) {
    require(scan.starts[i] == walk.frames[i].start, "another start");
  }
}

// Scans the stream in windows of at least `size` bytes, each from where the last scan stopped.
FrameScan scan_in_windows(Bytes stream, std::uint64_t offset, std::uint64_t end, std::size_t size,
                          bool check_lengths) {
  FrameScan all;
  all.next = offset;
  std::size_t seen = 0;
  while (!all.fault) {
    const std::uint64_t from = all.next - offset;
    if (from > stream.size() || seen == stream.size()) break;
    seen = std::min(stream.size(), std::max<std::size_t>(seen, from) + size);
    const FrameScan scan =
        scan_frames(stream.subspan(from, seen - from), all.next, end, check_lengths);
    all.starts.insert(all.starts.end(), scan.starts.begin(), scan.starts.end());
    all.next = scan.next;
    all.fault = scan.fault;
  }
  return all;
}

std::optional<FrameFault> reference_check(Bytes buffer, std::uint64_t start, std::uint64_t length,
                                          bool check_crcs) {
  if (Wide{start} + 12 > buffer.size()) return FrameFault::past_end;
  const auto stored = load<std::uint64_t>(buffer, start);
  const std::uint32_t length_crc = test::reference_masked_crc(buffer.subspan(start, 8));
  if (check_crcs && length_crc != load<std::uint32_t>(buffer, start + 8)) {
    return FrameFault::length_crc;
  }
  if (stored != length) return FrameFault::length_mismatch;
  if (Wide{start} + 16 + length > buffer.size()) return FrameFault::past_end;
  const std::uint32_t crc = test::reference_masked_crc(buffer.subspan(start + 12, length));
  const bool valid = crc == load<std::uint32_t>(buffer, start + 12 + length);
  return check_crcs && !valid ? std::optional(FrameFault::data_crc) : std::nullopt;
}

void require_same_check(Bytes buffer, std::uint64_t start, std::uint64_t length) {
  for (const bool check_crcs : {false, true}) {
    require(check_frame(buffer, start, length, check_crcs) ==
                reference_check(buffer, start, length, check_crcs),
            "check_frame differs");
  }
}

void run(Options options, std::size_t window, std::uint64_t offset, MutableBytes stream) {
  test::repair_frames(stream, options.repair_lengths, options.repair_data);
  if (options.late) offset = kUnknownEnd - stream.size() - offset;
  const std::uint64_t end = options.unknown_end ? kUnknownEnd : offset + stream.size();
  const Walk walk = reference_walk(stream, offset, end, options.check_lengths);
  require_same(scan_frames(stream, offset, end, options.check_lengths), walk);
  for (const std::size_t size : {std::size_t{1}, std::size_t{13}, window + 1}) {
    require_same(scan_in_windows(stream, offset, end, size, options.check_lengths), walk);
  }

  for (const auto& frame : walk.frames) {
    require_same_check(stream, frame.start - offset, frame.length);
    require_same_check(stream, frame.start - offset, frame.length + 1);
  }
  for (const std::uint64_t start :
       {walk.next - offset, std::uint64_t{window}, kUnknownEnd - window}) {
    const bool inside = start < stream.size() && stream.size() - start >= 8;
    require_same_check(stream, start, inside ? load<std::uint64_t>(stream, start) : window);
  }
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tio;
  if (size < 4) return 0;
  const Bytes input = std::as_bytes(std::span(data, size));
  const auto bits = load<std::uint8_t>(input, 0);
  const fuzz::Options options = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                                 (bits & 16) == 0};
  std::vector<std::byte> stream(input.begin() + 4, input.end());
  fuzz::run(options, load<std::uint16_t>(input, 1), load<std::uint8_t>(input, 3), stream);
  return 0;
}
