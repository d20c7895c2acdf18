#include "records/index.h"

#include <algorithm>

#include "wire/crc32c.h"
#include "wire/cursor.h"

namespace tio {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMaxShift = 12;  // 4,096 records share a 64-bit base
constexpr std::size_t kBodyCrcAt = 72;
constexpr std::size_t kHeaderCrcAt = 76;
constexpr std::size_t kRestartBytes = 16;

std::uint64_t blocks_of(std::uint64_t count, std::uint32_t shift) {
  return (count >> shift) + ((count & ((std::uint64_t{1} << shift) - 1)) != 0);
}

// The offset table has u32 entries. Padding keeps the u64 entries after it aligned.
std::uint64_t offset_table_bytes(std::uint64_t count) {
  return (count * 4 + 7) & ~std::uint64_t{7};
}

// Returns the shift of the largest blocks whose offsets all fit in 32 bits.
std::uint32_t choose_shift(std::span<const std::uint64_t> starts) {
  for (std::uint32_t shift = kMaxShift; shift > 0; --shift) {
    const std::size_t block = std::size_t{1} << shift;
    bool fits = true;
    for (std::size_t at = 0; fits && at < starts.size(); at += block) {
      const std::size_t last = std::min(at + block, starts.size()) - 1;
      fits = starts[last] - starts[at] <= 0xffffffffU;
    }
    if (fits) return shift;
  }
  return 0;
}

}  // namespace

std::vector<std::byte> encode_index(const IndexHeader& header,
                                    std::span<const std::uint64_t> starts,
                                    std::span<const Restart> restarts) {
  const std::uint32_t shift = choose_shift(starts);
  const std::size_t bases = blocks_of(starts.size(), shift) * 8;
  const std::size_t offsets = offset_table_bytes(starts.size());
  std::vector<std::byte> file(kIndexHeaderBytes + bases + offsets +
                              restarts.size() * kRestartBytes);
  const MutableBytes out(file);

  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::uint64_t base = starts[i >> shift << shift];
    if (i == i >> shift << shift) store(out, kIndexHeaderBytes + (i >> shift) * 8, base);
    store(out, kIndexHeaderBytes + bases + i * 4, static_cast<std::uint32_t>(starts[i] - base));
  }
  for (std::size_t i = 0; i < restarts.size(); ++i) {
    store(out, kIndexHeaderBytes + bases + offsets + i * kRestartBytes, restarts[i].stream_offset);
    store(out, kIndexHeaderBytes + bases + offsets + i * kRestartBytes + 8,
          restarts[i].file_offset);
  }

  std::memcpy(file.data(), kIndexSignature.data(), kIndexSignature.size());
  store(out, 8, kVersion);
  store(out, 12, header.format);
  store(out, 16, static_cast<std::uint32_t>(header.compression));
  store(out, 20, shift);
  store(out, 24, static_cast<std::uint64_t>(starts.size()));
  store(out, 32, header.data_bytes);
  store(out, 40, header.data_mtime_ns);
  store(out, 48, header.data_fingerprint);
  store(out, 56, header.stream_end);
  store(out, 64, static_cast<std::uint64_t>(restarts.size()));
  store(out, kBodyCrcAt, crc32c(out.subspan(kIndexHeaderBytes)));
  store(out, kHeaderCrcAt, crc32c(out.first(kHeaderCrcAt)));
  return file;
}

std::optional<IndexView> IndexView::open(Bytes file, bool check_body, std::string& reason) {
  const auto fail = [&reason](const char* why) {
    reason = why;
    return std::nullopt;
  };
  Cursor cursor(file);
  Bytes magic;
  std::uint32_t version = 0;
  std::uint32_t compression = 0;
  std::uint32_t body_crc = 0;
  std::uint32_t header_crc = 0;
  IndexView view;
  IndexHeader& header = view.header_;

  if (file.size() < kIndexHeaderBytes) return fail("it is shorter than an index header");
  if (!cursor.read_bytes(kIndexSignature.size(), magic) ||
      std::memcmp(magic.data(), kIndexSignature.data(), kIndexSignature.size()) != 0) {
    return fail("it does not start with the signature of a .tfidx file");
  }
  if (!cursor.read(version)) return fail("its header is truncated");
  if (version != kVersion) return fail("its version is not supported");
  if (!cursor.read(header.format) || !cursor.read(compression) || !cursor.read(view.block_shift_) ||
      !cursor.read(header.records) || !cursor.read(header.data_bytes) ||
      !cursor.read(header.data_mtime_ns) || !cursor.read(header.data_fingerprint) ||
      !cursor.read(header.stream_end) || !cursor.read(header.restarts) || !cursor.read(body_crc) ||
      !cursor.read(header_crc)) {
    return fail("its header is truncated");
  }
  if (crc32c(file.first(kHeaderCrcAt)) != header_crc) return fail("its header checksum is wrong");
  if (compression > static_cast<std::uint32_t>(Compression::zlib)) {
    return fail("its compression is not supported");
  }
  header.compression = static_cast<Compression>(compression);
  if (view.block_shift_ > kMaxShift) return fail("its block size is invalid");

  // Counts are checked against the size of the file before anything is computed from them.
  if (header.records > file.size() / 4 || header.restarts > file.size() / kRestartBytes) {
    return fail("it is shorter than its record count requires");
  }
  if (!cursor.read_bytes(blocks_of(header.records, view.block_shift_) * 8, view.bases_) ||
      !cursor.read_bytes(offset_table_bytes(header.records), view.offsets_) ||
      !cursor.read_bytes(header.restarts * kRestartBytes, view.restart_table_)) {
    return fail("it is shorter than its record count requires");
  }
  if (!cursor.done()) return fail("it is longer than its record count requires");
  if (check_body && crc32c(file.subspan(kIndexHeaderBytes)) != body_crc) {
    return fail("its checksum is wrong");
  }
  return view;
}

std::vector<Restart> IndexView::restarts() const {
  std::vector<Restart> restarts(header_.restarts);
  for (std::size_t i = 0; i < restarts.size(); ++i) {
    restarts[i] = {load<std::uint64_t>(restart_table_, i * kRestartBytes),
                   load<std::uint64_t>(restart_table_, i * kRestartBytes + 8)};
  }
  return restarts;
}

std::uint64_t IndexView::start_of(std::uint64_t record) const {
  return load<std::uint64_t>(bases_, (record >> block_shift_) * 8) +
         load<std::uint32_t>(offsets_, record * 4);
}

bool IndexView::locate(std::uint64_t record, std::uint64_t& start, std::uint64_t& end) const {
  if (record >= header_.records) return false;
  start = start_of(record);
  end = record + 1 == header_.records ? header_.stream_end : start_of(record + 1);
  return start <= end && end <= header_.stream_end;
}

bool IndexView::locate(std::span<const std::int64_t> records, std::span<std::int64_t> starts,
                       std::span<std::int64_t> ends) const {
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    if (!locate(static_cast<std::uint64_t>(records[i]), start, end) || end > INT64_MAX)
      return false;
    starts[i] = static_cast<std::int64_t>(start);
    ends[i] = static_cast<std::int64_t>(end);
  }
  return true;
}

}  // namespace tio
