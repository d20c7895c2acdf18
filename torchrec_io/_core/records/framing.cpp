#include "records/framing.h"

#include "wire/crc32c.h"
#include "wire/cursor.h"

namespace tio {
namespace {

struct Header {
  std::uint64_t length = 0;
  bool sound = false;
};

bool read_header(Cursor& cursor, Header& header) {
  Bytes length_bytes;
  std::uint32_t crc = 0;
  if (!cursor.read_bytes(8, length_bytes) || !cursor.read(crc)) return false;
  header.length = load<std::uint64_t>(length_bytes, 0);
  header.sound = mask_crc(crc32c(length_bytes)) == crc;
  return true;
}

}  // namespace

FrameScan scan_frames(Bytes window, std::uint64_t at, std::uint64_t stream_end) {
  FrameScan scan;
  scan.next = at;
  while (true) {
    const std::uint64_t inside = scan.next - at;
    Header header;
    if (inside > window.size()) return scan;
    Cursor cursor(window.subspan(inside));
    if (!read_header(cursor, header)) return scan;
    if (!header.sound) {
      scan.fault = FrameFault::length_crc;
      return scan;
    }
    // Subtractions only: a length near 2^64 must not wrap around.
    const std::uint64_t left = stream_end - scan.next;
    if (left < kFrameOverheadBytes || header.length > left - kFrameOverheadBytes) {
      scan.fault = FrameFault::past_end;
      return scan;
    }
    scan.starts.push_back(scan.next);
    scan.next += kFrameOverheadBytes + header.length;
  }
}

FrameFault check_frame(Bytes buffer, std::uint64_t start, std::uint64_t length, bool check_data) {
  if (start > buffer.size()) return FrameFault::past_end;
  Cursor cursor(buffer.subspan(start));
  Header header;
  Bytes data;
  std::uint32_t crc = 0;
  if (!read_header(cursor, header)) return FrameFault::past_end;
  if (!header.sound) return FrameFault::length_crc;
  if (header.length != length) return FrameFault::other_length;
  if (!cursor.read_bytes(length, data) || !cursor.read(crc)) return FrameFault::past_end;
  if (check_data && mask_crc(crc32c(data)) != crc) return FrameFault::data_crc;
  return FrameFault::none;
}

FrameEnds frame_ends(Bytes record) {
  FrameEnds ends;
  const MutableBytes header(ends.header);
  store(header, 0, static_cast<std::uint64_t>(record.size()));
  store(header, 8, mask_crc(crc32c(header.first(8))));
  store(MutableBytes(ends.footer), 0, mask_crc(crc32c(record)));
  return ends;
}

void write_frame(Bytes record, MutableBytes out) {
  const MutableBytes data = out.subspan(kFrameHeaderBytes, record.size());
  // First: the checksum then finds the data in the processor's cache.
  if (!record.empty()) std::memcpy(data.data(), record.data(), record.size());
  const FrameEnds ends = frame_ends(data);
  std::memcpy(out.data(), ends.header.data(), ends.header.size());
  std::memcpy(data.data() + data.size(), ends.footer.data(), ends.footer.size());
}

}  // namespace tio
