#include "records/index.h"

#include <algorithm>
#include <new>

#include "wire/crc32c.h"

namespace tio {
namespace {

constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kVersionWithSeekPoints = 3;
constexpr std::uint32_t kMaxShift = 12;  // 4,096 records share a 64-bit base
constexpr std::size_t kBlockShiftAt = 20;
constexpr std::size_t kBodyCrcAt = 96;
constexpr std::size_t kHeaderCrcAt = 100;
constexpr std::size_t kGapBytes = 24;

std::uint64_t index_blocks(std::uint64_t count, std::uint32_t shift) {
  return (count >> shift) + ((count & ((std::uint64_t{1} << shift) - 1)) != 0);
}

// The offset table has u32 entries, and is padded to a multiple of 8 bytes.
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

const char* read_index_header(Bytes head, IndexHeader& header) {
  if (head.size() < kIndexHeaderBytes) return "it is shorter than an index header";
  if (std::memcmp(head.data(), kIndexSignature.data(), kIndexSignature.size()) != 0) {
    return "it does not start with the signature of a .tfidx file";
  }
  const auto version = load<std::uint32_t>(head, 8);
  if (version < kVersion) return "an earlier release wrote it";
  if (version > kVersionWithSeekPoints) return "its version is not supported";
  if (crc32c(head.first(kHeaderCrcAt)) != load<std::uint32_t>(head, kHeaderCrcAt)) {
    return "its header checksum is wrong";
  }
  if (load<std::uint64_t>(head, 80) != 0) return "an earlier release wrote it";
  const auto compression = load<std::uint32_t>(head, 16);
  if (compression > static_cast<std::uint32_t>(Compression::zstd)) {
    return "its compression is not supported";
  }
  header.format = load<std::uint32_t>(head, 12);
  header.compression = static_cast<Compression>(compression);
  header.records = load<std::uint64_t>(head, 24);
  header.data_bytes = load<std::uint64_t>(head, 32);
  header.data_mtime_ns = load<std::int64_t>(head, 40);
  header.data_fingerprint = load<std::uint64_t>(head, 48);
  header.stream_end = load<std::uint64_t>(head, 56);
  header.header_bytes = load<std::uint64_t>(head, 64);
  header.footer_bytes = load<std::uint64_t>(head, 72);
  header.gaps = load<std::uint64_t>(head, 88);
  header.has_seek_points = version == kVersionWithSeekPoints;
  return nullptr;
}

std::vector<std::byte> encode_index(const IndexHeader& header,
                                    std::span<const std::uint64_t> starts,
                                    std::span<const Gap> gaps, Bytes seek_points) {
  const std::uint32_t shift = choose_shift(starts);
  const std::size_t bases_at = kIndexHeaderBytes + gaps.size() * kGapBytes;
  const std::size_t offsets_at = bases_at + index_blocks(starts.size(), shift) * 8;
  const std::size_t seek_points_at = offsets_at + offset_table_bytes(starts.size());
  std::vector<std::byte> file(seek_points_at + seek_points.size());
  const MutableBytes out(file);

  for (std::size_t i = 0; i < gaps.size(); ++i) {
    store(out, kIndexHeaderBytes + i * kGapBytes, gaps[i].begin);
    store(out, kIndexHeaderBytes + i * kGapBytes + 8, gaps[i].end);
    store(out, kIndexHeaderBytes + i * kGapBytes + 16, static_cast<std::uint64_t>(gaps[i].kind));
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::uint64_t base = starts[i >> shift << shift];
    if (i == i >> shift << shift) store(out, bases_at + (i >> shift) * 8, base);
    store(out, offsets_at + i * 4, static_cast<std::uint32_t>(starts[i] - base));
  }
  if (!seek_points.empty()) {
    std::memcpy(&file[seek_points_at], seek_points.data(), seek_points.size());
  }

  std::memcpy(file.data(), kIndexSignature.data(), kIndexSignature.size());
  store(out, 8, seek_points.empty() ? kVersion : kVersionWithSeekPoints);
  store(out, 12, header.format);
  store(out, 16, static_cast<std::uint32_t>(header.compression));
  store(out, kBlockShiftAt, shift);
  store(out, 24, static_cast<std::uint64_t>(starts.size()));
  store(out, 32, header.data_bytes);
  store(out, 40, header.data_mtime_ns);
  store(out, 48, header.data_fingerprint);
  store(out, 56, header.stream_end);
  store(out, 64, header.header_bytes);
  store(out, 72, header.footer_bytes);
  store(out, 88, static_cast<std::uint64_t>(gaps.size()));
  store(out, kBodyCrcAt, crc32c(out.subspan(kIndexHeaderBytes)));
  store(out, kHeaderCrcAt, crc32c(out.first(kHeaderCrcAt)));
  return file;
}

// ---- Index ----

std::shared_ptr<Index> Index::open(Bytes file, Owner owner, std::string& reason) {
  IndexScan scan(file.size());
  scan.add(file);
  auto index = scan.finish(reason);
  if (index != nullptr) {
    index->offsets_ = file.subspan(index->offsets_at_, index->header_.records * 4);
    index->owner_ = std::move(owner);
  }
  return index;
}

IndexRange Index::page_range(std::size_t page) const {
  const std::size_t first = page * kPageRecords;
  const auto records = std::min<std::uint64_t>(kPageRecords, header_.records - first);
  return {offsets_at_ + first * 4, records * 4};
}

bool Index::is_page(std::size_t page, Bytes bytes) const {
  return bytes.size() == page_range(page).size && crc32c(bytes) == page_crcs_[page];
}

bool Index::locate(std::uint64_t record, const std::byte* entry, const std::byte* next,
                   std::uint64_t& start, std::uint64_t& end) const {
  start = start_of(record, entry);
  end = record + 1 == header_.records ? header_.stream_end : start_of(record + 1, next);
  if (!gaps_.empty()) {
    const auto gap = std::ranges::upper_bound(gaps_, start, {}, &Gap::end);
    if (gap != gaps_.end() && gap->begin < end) end = gap->begin;
  }
  return start <= end && end <= header_.stream_end;
}

// ---- IndexScan ----

bool IndexScan::fail(const char* reason) {
  reason_ = reason;
  return false;
}

bool IndexScan::add(Bytes bytes) {
  try {
    if (reason_ == nullptr) add_to_head(bytes);
    const std::uint64_t offsets = has_header_ ? std::min(offsets_left_, bytes.size()) : 0;
    if (reason_ == nullptr) add_offsets(bytes.first(offsets));
    if (reason_ == nullptr) add_seek_points(bytes.subspan(offsets));
  } catch (const std::bad_alloc&) {
    fail("memory ran out while it was read");  // it cannot be continued: tables may be incomplete
    throw;
  }
  return reason_ == nullptr;
}

// Memory grows with the bytes that arrive, which the counts in the header do not exceed.
void IndexScan::add_to_head(Bytes& bytes) {
  while (head_.size() < head_bytes_ && !bytes.empty()) {
    const Bytes part = bytes.first(std::min(bytes.size(), head_bytes_ - head_.size()));
    head_.insert(head_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (has_header_) found_crc_ = crc32c(part, found_crc_);
    if (head_.size() == kIndexHeaderBytes && !has_header_ && !read_header()) return;
    if (head_.size() == head_bytes_ && !read_tables()) return;
  }
}

bool IndexScan::read_header() {
  const Bytes head(head_);
  IndexHeader& header = index_.header_;
  if (const char* reason = read_index_header(head, header); reason != nullptr) return fail(reason);
  index_.block_shift_ = load<std::uint32_t>(head, kBlockShiftAt);
  body_crc_ = load<std::uint32_t>(head, kBodyCrcAt);
  if (index_.block_shift_ > kMaxShift) return fail("its block size is invalid");

  // Counts are checked against the size of the file before anything is computed from them.
  if (header.records > file_bytes_ / 4 || header.gaps > file_bytes_ / kGapBytes) {
    return fail("it is shorter than its record count requires");
  }
  index_.offsets_at_ = kIndexHeaderBytes + header.gaps * kGapBytes +
                       index_blocks(header.records, index_.block_shift_) * 8;
  offsets_left_ = offset_table_bytes(header.records);
  if (file_bytes_ < index_.offsets_at_ + offsets_left_) {
    return fail("it is shorter than its record count requires");
  }
  seek_bytes_left_ = file_bytes_ - index_.offsets_at_ - offsets_left_;
  if (seek_bytes_left_ != 0 && !header.has_seek_points) {
    return fail("it is longer than its record count requires");
  }
  index_.seek_points_ = {index_.offsets_at_ + offsets_left_, seek_bytes_left_};
  head_bytes_ = index_.offsets_at_;
  least_frame_bytes_ = header.format == 0 ? 16 : 0;  // a TFRecord without data
  has_header_ = true;
  return true;
}

bool IndexScan::read_tables() {
  const Bytes head(head_);
  const IndexHeader& header = index_.header_;
  std::size_t at = kIndexHeaderBytes;
  std::uint64_t passed = 0;
  for (std::uint64_t i = 0; i < header.gaps; ++i, at += kGapBytes) {
    const auto kind = load<std::uint64_t>(head, at + 16);
    const Gap gap = {load<std::uint64_t>(head, at), load<std::uint64_t>(head, at + 8),
                     static_cast<GapKind>(kind)};
    if (gap.begin < passed || gap.end < gap.begin || gap.end > INT64_MAX) {
      fault_ = "its gaps are out of order";
    }
    if (kind > static_cast<std::uint64_t>(GapKind::left_out)) {
      fault_ = "the kind of a gap is not supported";
    }
    index_.gaps_.push_back(gap);
    passed = gap.end;
  }
  for (std::uint64_t i = index_blocks(header.records, index_.block_shift_); i > 0; --i, at += 8) {
    index_.bases_.push_back(load<std::uint64_t>(head, at));
  }
  return true;
}

void IndexScan::add_offsets(Bytes bytes) {
  if (bytes.empty()) return;
  offsets_left_ -= bytes.size();
  found_crc_ = crc32c(bytes, found_crc_);
  std::uint64_t done = index_.page_crcs_.size() * kPageRecords;
  while (!bytes.empty() && done < index_.header_.records) {
    const std::size_t size = index_.page_range(index_.page_crcs_.size()).size;
    Bytes page = bytes.first(std::min(bytes.size(), size - page_.size()));
    bytes = bytes.subspan(page.size());
    if (page.size() < size) {
      page_.insert(page_.end(), page.begin(), page.end());
      if (page_.size() < size) return;
      page = page_;
    }
    check_page(page);
    index_.page_crcs_.push_back(crc32c(page));
    page_.clear();
    done += size / 4;
  }
}

void IndexScan::add_seek_points(Bytes bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > seek_bytes_left_) {
    fail("it is longer than its record count requires");
    return;
  }
  seek_bytes_left_ -= bytes.size();
  found_crc_ = crc32c(bytes, found_crc_);
}

// Checks that records of a page ascend and do not overlap.
void IndexScan::check_page(Bytes page) {
  const std::size_t count = page.size() / 4;
  const std::uint64_t first = index_.page_crcs_.size() * kPageRecords;
  const auto check = [this, page, first](std::size_t i) {
    const std::uint64_t record = first + i;
    const std::uint64_t base = index_.bases_[record >> index_.block_shift_];
    return base <= INT64_MAX && check_next(base + load<std::uint32_t>(page, i * 4));
  };
  bool is_valid = true;
  const bool is_one_block = (std::size_t{1} << index_.block_shift_) >= kPageRecords;
  if (is_one_block && index_.gaps_.empty()) {
    // The common case, without branches: billions of records are checked in a second.
    const auto least = static_cast<std::uint32_t>(least_frame_bytes_);
    std::uint32_t faults = 0;
    for (std::size_t i = 1; i < count; ++i) {
      const auto before = load<std::uint32_t>(page, i * 4 - 4);
      const auto after = load<std::uint32_t>(page, i * 4);
      faults |= static_cast<std::uint32_t>(after < before) |
                static_cast<std::uint32_t>(after - before < least);
    }
    is_valid = faults == 0 && check(0);
    last_start_ += load<std::uint32_t>(page, page.size() - 4) - load<std::uint32_t>(page, 0);
  } else {
    for (std::size_t i = 0; is_valid && i < count; ++i) is_valid = check(i);
  }
  if (!is_valid) fault_ = "its records are out of order";
}

// Checks that a record may start here, after the one before it and any gap.
bool IndexScan::check_next(std::uint64_t start) {
  const auto& gaps = index_.gaps_;
  bool is_valid = true;
  std::uint64_t end = start;  // of the record before it
  if (gaps_passed_ < gaps.size() && gaps[gaps_passed_].begin < start) {
    is_valid = gaps[gaps_passed_].end == start;
    end = gaps[gaps_passed_].begin;
    ++gaps_passed_;
  }
  is_valid = is_valid && (has_record_ ? end >= last_start_ + least_frame_bytes_
                                      : end == index_.header_.header_bytes);
  has_record_ = true;
  last_start_ = start;
  return is_valid;
}

// Checks the end of the last record, and that nothing but a gap and the footer follows it.
bool IndexScan::check_end() {
  const IndexHeader& header = index_.header_;
  const std::uint64_t least = has_record_ ? last_start_ + least_frame_bytes_ : header.header_bytes;
  if (header.stream_end < least || header.stream_end > INT64_MAX) return false;
  if (!has_record_ && header.stream_end != least) return false;
  std::uint64_t end = header.stream_end;
  std::size_t passed = gaps_passed_;  // unchanged, so that `finish` can be called again
  if (passed < index_.gaps_.size()) {
    const Gap& gap = index_.gaps_[passed++];
    if (gap.begin != end) return false;
    end = gap.end;
  }
  if (passed != index_.gaps_.size() || header.footer_bytes > INT64_MAX - end) return false;
  index_.stream_bytes_ = end + header.footer_bytes;
  return true;
}

std::shared_ptr<Index> IndexScan::finish(std::string& reason) {
  if (reason_ == nullptr && head_.size() < kIndexHeaderBytes) {
    fail("it is shorter than an index header");
  }
  if (reason_ == nullptr &&
      (head_.size() < head_bytes_ || offsets_left_ != 0 || seek_bytes_left_ != 0)) {
    fail("it is shorter than its record count requires");
  }
  if (reason_ == nullptr && found_crc_ != body_crc_) fail("its checksum is wrong");
  if (reason_ == nullptr && fault_ != nullptr) fail(fault_);
  if (reason_ == nullptr && !check_end()) fail("the end of its records is wrong");
  if (reason_ == nullptr) return std::make_shared<Index>(std::move(index_));
  reason = reason_;
  return nullptr;
}

}  // namespace tio
