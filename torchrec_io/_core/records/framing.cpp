#include "records/framing.h"

#include "wire/crc32c.h"
#include "wire/cursor.h"

namespace tio {
namespace {

struct Header {
  std::uint64_t length = 0;
  bool is_valid = false;
};

bool read_header(Cursor& cursor, Header& header) {
  Bytes length_bytes;
  std::uint32_t crc = 0;
  if (!cursor.read_bytes(8, length_bytes) || !cursor.read(crc)) return false;
  header.length = load<std::uint64_t>(length_bytes, 0);
  header.is_valid = mask_crc(crc32c(length_bytes)) == crc;
  return true;
}

void write_frame(Bytes record, MutableBytes out) {
  const MutableBytes data = out.subspan(kFrameHeaderBytes, record.size());
  // Copy first: the checksum then finds the data in the cache of the processor.
  if (!record.empty()) std::memcpy(data.data(), record.data(), record.size());
  const FrameEnds ends = frame_ends(data);
  std::memcpy(out.data(), ends.header.data(), ends.header.size());
  std::memcpy(data.data() + data.size(), ends.footer.data(), ends.footer.size());
}

}  // namespace

FrameScan scan_frames(Bytes window, std::uint64_t at, std::uint64_t stream_end,
                      bool check_lengths) {
  FrameScan scan;
  scan.next = at;
  while (true) {
    const std::uint64_t inside = scan.next - at;
    Header header;
    if (inside > window.size()) return scan;
    Cursor cursor(window.subspan(inside));
    if (!read_header(cursor, header)) return scan;
    if (check_lengths && !header.is_valid) {
      scan.fault = FrameFault::length_crc;
      return scan;
    }
    // Subtractions only, because a length near 2^64 must not wrap around.
    const std::uint64_t left = stream_end - scan.next;
    if (left < kFrameOverheadBytes || header.length > left - kFrameOverheadBytes) {
      scan.fault = FrameFault::past_end;
      return scan;
    }
    scan.starts.push_back(scan.next);
    scan.next += kFrameOverheadBytes + header.length;
  }
}

std::optional<FrameFault> check_frame(Bytes buffer, std::uint64_t start, std::uint64_t length,
                                      bool check_crcs) {
  if (start > buffer.size()) return FrameFault::past_end;
  Cursor cursor(buffer.subspan(start));
  Header header;
  Bytes data;
  std::uint32_t crc = 0;
  if (!read_header(cursor, header)) return FrameFault::past_end;
  if (check_crcs && !header.is_valid) return FrameFault::length_crc;
  if (header.length != length) return FrameFault::length_mismatch;
  if (!cursor.read_bytes(length, data) || !cursor.read(crc)) return FrameFault::past_end;
  if (check_crcs && mask_crc(crc32c(data)) != crc) return FrameFault::data_crc;
  return std::nullopt;
}

std::vector<std::pair<std::size_t, FrameFault>> check_frames(Bytes buffer,
                                                             std::span<const std::int64_t> starts,
                                                             std::span<const std::int64_t> lengths,
                                                             bool check_crcs) {
  std::vector<std::pair<std::size_t, FrameFault>> faults;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto fault = check_frame(buffer, static_cast<std::uint64_t>(starts[i]),
                                   static_cast<std::uint64_t>(lengths[i]), check_crcs);
    if (fault) faults.emplace_back(i, *fault);
  }
  return faults;
}

FrameEnds frame_ends(Bytes record) {
  FrameEnds ends;
  const MutableBytes header(ends.header);
  store(header, 0, static_cast<std::uint64_t>(record.size()));
  store(header, 8, mask_crc(crc32c(header.first(8))));
  store(MutableBytes(ends.footer), 0, mask_crc(crc32c(record)));
  return ends;
}

void write_frames(std::span<const Bytes> records, MutableBytes out) {
  for (const Bytes record : records) {
    write_frame(record, out);
    out = out.subspan(record.size() + kFrameOverheadBytes);
  }
}

}  // namespace tio
