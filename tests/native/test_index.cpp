// The index of byte offsets: round trips, and damaged files with and without valid checksums.
#include <algorithm>

#include "check.h"
#include "encode.h"
#include "records/index.h"
#include "repair.h"

namespace tio::test {
namespace {

IndexHeader some_header(std::uint64_t stream_end) {
  IndexHeader header;
  header.format = 0;
  header.compression = Compression::gzip;
  header.data_bytes = 0x123456789a;
  header.data_mtime_ns = -5;
  header.data_fingerprint = 0xfedcba9876543210;
  header.stream_end = stream_end;
  return header;
}

std::shared_ptr<Index> open(const std::vector<std::byte>& file) {
  std::string reason;
  auto index = Index::open(file, nullptr, reason);
  CHECK_EQ(index != nullptr, reason.empty());
  return index;
}

// Scans a file in pieces, as if it were too large for memory.
std::shared_ptr<Index> scan(Bytes file, std::size_t piece, std::string& reason) {
  IndexScan scan(file.size());
  for (std::size_t at = 0; at < file.size(); at += piece) {
    if (!scan.add(file.subspan(at, std::min(piece, file.size() - at)))) break;
  }
  return scan.finish(reason);
}

bool locate(const Index& index, std::uint64_t record, std::uint64_t& start, std::uint64_t& end) {
  const std::byte* entry = index.offsets().data() + record * 4;
  return index.locate(record, entry, entry + 4, start, end);
}

// The pages of a scanned index are those of the table of offsets.
void check_pages(const Index& index, const std::vector<std::byte>& file) {
  const Bytes bytes(file);
  std::uint64_t records = 0;
  for (std::size_t page = 0; page < index.pages(); ++page) {
    const IndexRange range = index.page_range(page);
    CHECK(index.is_page(page, bytes.subspan(range.offset, range.size)));
    CHECK(!index.is_page(page, bytes.subspan(range.offset, range.size - 4)));
    auto changed = file;
    changed[range.offset + range.size - 1] ^= std::byte{1};
    CHECK(!index.is_page(page, Bytes(changed).subspan(range.offset, range.size)));
    records += range.size / 4;
  }
  CHECK_EQ(records, index.header().records);
}

void check_round_trip(const std::vector<std::uint64_t>& starts, std::uint64_t stream_end,
                      std::uint32_t format = 1) {
  IndexHeader header = some_header(stream_end);
  header.format = format;
  header.header_bytes = starts.empty() ? stream_end : starts[0];
  header.footer_bytes = 3;
  const auto file = encode_index(header, starts);
  const auto index = open(file);
  std::string reason;
  const auto scanned = scan(file, 1000, reason);
  if (!CHECK(index != nullptr && scanned != nullptr)) return;
  check_pages(*scanned, file);
  CHECK(scanned->offsets().empty());
  const IndexHeader& read = index->header();
  CHECK_EQ(read.records, starts.size());
  CHECK_EQ(read.format, header.format);
  CHECK_EQ(read.compression, header.compression);
  CHECK_EQ(read.data_bytes, header.data_bytes);
  CHECK_EQ(read.data_mtime_ns, header.data_mtime_ns);
  CHECK_EQ(read.data_fingerprint, header.data_fingerprint);
  CHECK_EQ(read.stream_end, stream_end);
  CHECK_EQ(read.header_bytes, header.header_bytes);
  CHECK(read.footer_bytes == 3);
  CHECK_EQ(index->stream_bytes(), stream_end + 3);

  std::uint64_t start = 0;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!CHECK(locate(*index, i, start, end))) return;
    CHECK_EQ_IN(start, starts[i], i);
    CHECK_EQ_IN(end, i + 1 < starts.size() ? starts[i + 1] : stream_end, i);
  }
}

std::vector<std::uint64_t> every(std::uint64_t step, std::size_t count) {
  std::vector<std::uint64_t> starts(count);
  for (std::size_t i = 0; i < count; ++i) starts[i] = i * step;
  return starts;
}

void test_round_trips() {
  for (const std::size_t count : {0, 1, 2, 3, 4095, 4096, 4097, 8192, 10001}) {
    for (const std::uint64_t step :
         {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{1} << 20, std::uint64_t{0xffffffff},
          std::uint64_t{1} << 32, std::uint64_t{1} << 40}) {
      check_round_trip(every(step, count), count * step);
    }
    check_round_trip(every(100, count), count * 100 + 50);
  }
}

// One huge gap must not damage the offsets of its block, wherever it is.
void test_uneven_gaps() {
  for (const std::size_t jump : {1, 2, 1000, 4095, 4096, 4097, 4999}) {
    auto starts = every(32, 5000);
    for (std::size_t i = jump; i < starts.size(); ++i) starts[i] += std::uint64_t{5} << 30;
    check_round_trip(starts, starts.back() + 32);
  }
  check_round_trip({0, INT64_MAX - 4}, INT64_MAX - 3);
}

std::vector<std::byte> small_index() { return encode_index(some_header(600), every(20, 29)); }

// A section of seek points follows the offsets, and is part of what the checksum covers.
void test_seek_points() {
  const std::vector<std::byte> section(37, std::byte{7});
  const auto starts = every(20, 29);
  const auto file = encode_index(some_header(600), starts, {}, section);
  const auto index = open(file);
  if (!CHECK(index != nullptr)) return;
  CHECK(index->header().has_seek_points);
  const IndexRange range = index->seek_points();
  CHECK_EQ(range.offset + range.size, file.size());
  CHECK_EQ(range.size, section.size());
  CHECK_EQ(index->offsets().size(), starts.size() * 4);
  CHECK(!open(small_index())->header().has_seek_points);
  CHECK_EQ(open(small_index())->seek_points().size, 0U);
  for (const std::size_t piece : {1, 7, 4096}) {
    std::string reason;
    CHECK(scan(file, piece, reason) != nullptr);
    for (const std::size_t cut : {1, 36, 37, 38}) {
      CHECK(scan(Bytes(file).first(file.size() - cut), piece, reason) == nullptr);
    }
  }
  auto damaged = file;
  damaged.back() ^= std::byte{1};
  CHECK(open(damaged) == nullptr);
}

// Whatever a file claims, its answers lie inside the stream that it describes.
void check_answers(const Index& index, std::size_t file_bytes) {
  CHECK(index.header().records <= file_bytes / 4);
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < index.header().records; ++i) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    if (!CHECK(locate(index, i, start, end))) return;
    CHECK(last <= start && start + 16 <= end && end <= index.header().stream_end);
    last = end;
  }
}

void test_every_cut() {
  const auto file = small_index();
  for (std::size_t size = 0; size < file.size(); ++size) {
    std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(open(cut) == nullptr);
    repair_index(cut);
    CHECK(open(cut) == nullptr);
  }
  auto longer = file;
  longer.resize(file.size() + 1);
  CHECK(open(longer) == nullptr);
  IndexScan scan(file.size());
  CHECK(!scan.add(longer));
}

void test_every_flip() {
  const auto file = small_index();
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      auto damaged = file;
      damaged[at] ^= static_cast<std::byte>(flip);
      CHECK(open(damaged) == nullptr);
      repair_index(damaged);
      if (const auto index = open(damaged)) check_answers(*index, file.size());
    }
  }
}

// Counts that make the sizes computed from them wrap around, even to zero.
void test_huge_counts() {
  const auto file = small_index();
  const std::vector<std::byte> header_only(file.begin(), file.begin() + 104);
  for (std::uint32_t shift = 0; shift <= 12; ++shift) {
    for (unsigned bit = 2; bit < 64; ++bit) {
      for (const std::uint64_t add : {0, 1, 2, 29}) {
        for (auto damaged : {file, header_only}) {
          store(damaged, 20, shift);
          for (const std::size_t field : {24, 80, 88}) {
            auto lying = damaged;
            for (const std::size_t other : {24, 80, 88}) store<std::uint64_t>(lying, other, 0);
            store<std::uint64_t>(lying, field, (std::uint64_t{1} << bit) + add);
            repair_index(lying);
            if (const auto index = open(lying)) check_answers(*index, lying.size());
          }
        }
      }
    }
  }
}

void test_unsupported_values() {
  std::string reason;
  for (const std::uint32_t version : {0U, 1U, 4U, 0xffffffffU}) {
    auto other = small_index();
    store(other, 8, version);
    repair_index(other);
    CHECK(Index::open(other, nullptr, reason) == nullptr);
    CHECK_EQ(reason, version < 2 ? "an earlier release wrote it" : "its version is not supported");
  }
  auto compression = small_index();
  store<std::uint32_t>(compression, 16, 4);
  repair_index(compression);
  CHECK(Index::open(compression, nullptr, reason) == nullptr);
  CHECK_EQ(reason, "its compression is not supported");
  auto shift = small_index();
  store<std::uint32_t>(shift, 20, 13);
  repair_index(shift);
  CHECK(open(shift) == nullptr);
}

// ---- records and gaps that do not cover the stream ----

struct Layout {
  std::vector<std::uint64_t> starts;
  std::vector<Gap> gaps;
  std::uint64_t end = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t footer_bytes = 0;

  std::string refusal() const {
    IndexHeader header = some_header(end);
    header.header_bytes = header_bytes;
    header.footer_bytes = footer_bytes;
    std::string reason;
    const auto file = encode_index(header, starts, gaps);
    const auto index = Index::open(file, nullptr, reason);
    std::string scanned;
    scan(file, 3, scanned);
    CHECK_EQ(reason, scanned);
    if (index != nullptr) check_answers(*index, file.size());
    return reason;
  }
};

constexpr auto kDamaged = GapKind::damaged;
constexpr auto kLeftOut = GapKind::left_out;

void test_layouts_that_cover() {
  CHECK_EQ((Layout{{0, 20}, {}, 40}.refusal()), "");
  CHECK_EQ((Layout{{}, {}, 0}.refusal()), "");
  CHECK_EQ((Layout{{7, 27}, {}, 47, 7, 5}.refusal()), "");
  CHECK_EQ((Layout{{0, 20}, {{40, 90, kDamaged}}, 40}.refusal()), "");
  CHECK_EQ((Layout{{0, 20}, {{40, 40, kDamaged}}, 40}.refusal()), "");
  CHECK_EQ((Layout{{}, {{0, 50, kDamaged}}, 0}.refusal()), "");
  CHECK_EQ((Layout{{16, 60}, {{0, 16, kLeftOut}, {32, 60, kLeftOut}}, 80}.refusal()), "");
}

void test_layouts_that_do_not_cover() {
  const std::string order = "its records are out of order";
  const std::string end = "the end of its records is wrong";
  CHECK_EQ((Layout{{20, 40}, {}, 60}.refusal()), order);
  CHECK_EQ((Layout{{0, 15}, {}, 60}.refusal()), order);
  CHECK_EQ((Layout{{0, 20}, {}, 60, 1}.refusal()), order);
  CHECK_EQ((Layout{{0, 60}, {{20, 59, kLeftOut}}, 80}.refusal()), order);
  CHECK_EQ((Layout{{0, 60}, {{15, 60, kLeftOut}}, 80}.refusal()), order);
  CHECK_EQ((Layout{{0, 20}, {}, 35}.refusal()), end);
  CHECK_EQ((Layout{{}, {}, 10}.refusal()), end);
  CHECK_EQ((Layout{{0}, {{21, 30, kDamaged}}, 20}.refusal()), end);
  CHECK_EQ((Layout{{0}, {{20, 30, kDamaged}, {30, 40, kDamaged}}, 20}.refusal()), end);
  CHECK_EQ((Layout{{0}, {}, std::uint64_t{1} << 63}.refusal()), end);
  CHECK_EQ((Layout{{0}, {}, 20, 0, ~std::uint64_t{0}}.refusal()), end);
  CHECK_EQ((Layout{{0}, {{30, 20, kDamaged}}, 20}.refusal()), "its gaps are out of order");
  CHECK_EQ((Layout{{0}, {{20, 30, static_cast<GapKind>(2)}}, 20}.refusal()),
           "the kind of a gap is not supported");
}

// Records in every block and page, where one entry is wrong.
void test_each_entry_out_of_order() {
  for (const std::uint64_t step : {std::uint64_t{16}, std::uint64_t{1} << 23}) {
    const auto starts = every(step, 3000);
    CHECK_EQ((Layout{starts, {}, 3000 * step}.refusal()), "");
    for (std::size_t at = 1; at < starts.size(); at += 7) {
      auto moved = starts;
      moved[at] = starts[at - 1] + 15;
      CHECK_EQ_IN((Layout{moved, {}, 3000 * step}.refusal()), "its records are out of order", at);
    }
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_round_trips();
  test_uneven_gaps();
  test_seek_points();
  test_every_cut();
  test_every_flip();
  test_huge_counts();
  test_unsupported_values();
  test_layouts_that_cover();
  test_layouts_that_do_not_cover();
  test_each_entry_out_of_order();
  return finish();
}
