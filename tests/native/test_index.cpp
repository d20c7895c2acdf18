// The index of byte offsets: round trips, and damaged files with and without valid checksums.
#include <limits>
#include <numeric>

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

std::optional<IndexView> open(const std::vector<std::byte>& file, bool check_body = true) {
  std::string reason;
  auto view = IndexView::open(file, check_body, reason);
  CHECK_EQ(view.has_value(), reason.empty());
  return view;
}

void check_round_trip(const std::vector<std::uint64_t>& starts, std::uint64_t stream_end,
                      const std::vector<Restart>& restarts) {
  const IndexHeader header = some_header(stream_end);
  const auto file = encode_index(header, starts, restarts);
  const auto view = open(file);
  if (!CHECK(view.has_value())) return;
  const IndexHeader& read = view->header();
  CHECK_EQ(read.records, starts.size());
  CHECK_EQ(read.format, header.format);
  CHECK_EQ(read.compression, header.compression);
  CHECK_EQ(read.data_bytes, header.data_bytes);
  CHECK_EQ(read.data_mtime_ns, header.data_mtime_ns);
  CHECK_EQ(read.data_fingerprint, header.data_fingerprint);
  CHECK_EQ(read.stream_end, stream_end);
  CHECK_EQ(read.restarts, restarts.size());

  std::uint64_t start = 0;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!CHECK(view->locate(i, start, end))) return;
    CHECK_EQ_IN(start, starts[i], i);
    CHECK_EQ_IN(end, i + 1 < starts.size() ? starts[i + 1] : stream_end, i);
  }
  CHECK(!view->locate(starts.size(), start, end));
  CHECK(!view->locate(std::numeric_limits<std::uint64_t>::max(), start, end));

  const auto read_restarts = view->restarts();
  for (std::size_t i = 0; i < read_restarts.size(); ++i) {
    CHECK_EQ(read_restarts[i].stream_offset, restarts[i].stream_offset);
    CHECK_EQ(read_restarts[i].file_offset, restarts[i].file_offset);
  }
}

std::vector<std::uint64_t> every(std::uint64_t step, std::size_t count) {
  std::vector<std::uint64_t> starts(count);
  for (std::size_t i = 0; i < count; ++i) starts[i] = i * step;
  return starts;
}

void test_round_trips() {
  const std::vector<Restart> restarts = {{0, 10}, {1 << 20, 300000}, {~std::uint64_t{0}, 7}};
  for (const std::size_t count : {0, 1, 2, 3, 4095, 4096, 4097, 8192, 10001}) {
    for (const std::uint64_t step :
         {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{1} << 20, std::uint64_t{0xffffffff},
          std::uint64_t{1} << 32, std::uint64_t{1} << 40}) {
      check_round_trip(every(step, count), count * step, {});
    }
    check_round_trip(every(100, count), count * 100 + 50, restarts);
  }
}

// One huge gap must not damage the offsets of its block, wherever it is.
void test_uneven_gaps() {
  for (const std::size_t jump : {1, 2, 1000, 4095, 4096, 4097, 4999}) {
    auto starts = every(32, 5000);
    for (std::size_t i = jump; i < starts.size(); ++i) starts[i] += std::uint64_t{5} << 30;
    check_round_trip(starts, starts.back() + 32, {});
  }
  check_round_trip({0, ~std::uint64_t{0} - 1}, ~std::uint64_t{0}, {});
}

std::vector<std::byte> small_index() {
  const std::vector<Restart> restarts = {{0, 10}, {200, 30}};
  return encode_index(some_header(600), every(20, 29), restarts);
}

// Whatever a file claims, its answers lie inside the stream that it describes.
void check_answers(const IndexView& view, std::size_t file_bytes) {
  CHECK(view.header().records <= file_bytes / 4);
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i <= view.header().records; ++i) {
    if (!view.locate(i, start, end)) continue;
    CHECK(i < view.header().records);
    CHECK(start <= end && end <= view.header().stream_end);
  }
  CHECK(view.restarts().size() <= file_bytes / 16);
}

void test_every_cut() {
  const auto file = small_index();
  for (std::size_t size = 0; size < file.size(); ++size) {
    std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(!open(cut).has_value());
    CHECK(!open(cut, false).has_value());
    repair_index(cut);
    CHECK(!open(cut).has_value());
  }
  auto longer = file;
  longer.resize(file.size() + 1);
  CHECK(!open(longer, false).has_value());
}

void test_every_flip() {
  const auto file = small_index();
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      auto damaged = file;
      damaged[at] ^= static_cast<std::byte>(flip);
      CHECK(!open(damaged).has_value());
      if (const auto view = open(damaged, false)) check_answers(*view, file.size());
      repair_index(damaged);
      if (const auto view = open(damaged)) check_answers(*view, file.size());
    }
  }
}

// Counts that make the sizes computed from them wrap around, even to zero.
void test_huge_counts() {
  const auto file = small_index();
  const std::vector<std::byte> header_only(file.begin(), file.begin() + 80);
  for (std::uint32_t shift = 0; shift <= 12; ++shift) {
    for (unsigned bit = 2; bit < 64; ++bit) {
      for (const std::uint64_t add : {0, 1, 2, 29}) {
        for (auto damaged : {file, header_only}) {
          store(damaged, 20, shift);
          for (const std::size_t field : {24, 64}) {
            auto lying = damaged;
            store<std::uint64_t>(lying, field == 24 ? 64 : 24, 0);
            store<std::uint64_t>(lying, field, (std::uint64_t{1} << bit) + add);
            repair_index(lying);
            if (const auto view = open(lying)) check_answers(*view, lying.size());
          }
        }
      }
    }
  }
}

void test_unsupported_values() {
  for (const std::uint32_t version : {0U, 2U, 0xffffffffU}) {
    auto other = small_index();
    store(other, 8, version);
    repair_index(other);
    CHECK(!open(other).has_value());
  }
  auto compression = small_index();
  store<std::uint32_t>(compression, 16, 3);
  repair_index(compression);
  std::string reason;
  CHECK(!IndexView::open(compression, true, reason).has_value());
  CHECK_EQ(reason, "its compression is not supported");
  auto shift = small_index();
  store<std::uint32_t>(shift, 20, 13);
  repair_index(shift);
  CHECK(!open(shift).has_value());
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_round_trips();
  test_uneven_gaps();
  test_every_cut();
  test_every_flip();
  test_huge_counts();
  test_unsupported_values();
  return finish();
}
