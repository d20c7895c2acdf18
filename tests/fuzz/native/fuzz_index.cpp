// Opens index files of any bytes, with or without corrected checksums, at once and in pieces: they
// open only if their sizes match and their records and gaps cover the stream one after another.
// Indexes of any starts are read back.
//
// Input: options, then the file, or gaps between records.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "records/index.h"
#include "reference.h"
#include "repair.h"
#include "require.h"

namespace tio::fuzz {
namespace {

__extension__ using Wide = unsigned __int128;

// The parts of an index file, if its sizes match its counts (docs/index-format.md). Sizes are
// computed in 128 bits.
struct Layout {
  std::uint32_t format = 0;
  std::uint32_t shift = 0;
  std::uint64_t count = 0;
  std::uint64_t gaps = 0;
  std::size_t bases_at = 0;
  std::size_t offsets_at = 0;

  static std::optional<Layout> of(Bytes file) {
    constexpr char kMagic[] = "\x89TFIDX\r\n";
    if (file.size() < 104 || std::memcmp(file.data(), kMagic, 8) != 0) return std::nullopt;
    const auto version = load<std::uint32_t>(file, 8);
    if (version != 2 && version != 3) return std::nullopt;
    if (load<std::uint32_t>(file, 16) > 3) return std::nullopt;  // none, gzip, zlib or zstd
    if (load<std::uint64_t>(file, 80) != 0) return std::nullopt;
    Layout layout;
    layout.format = load<std::uint32_t>(file, 12);
    layout.shift = load<std::uint32_t>(file, 20);
    layout.count = load<std::uint64_t>(file, 24);
    layout.gaps = load<std::uint64_t>(file, 88);
    if (layout.shift > 12) return std::nullopt;
    const Wide blocks = (Wide{layout.count} + (Wide{1} << layout.shift) - 1) >> layout.shift;
    const Wide bases_at = 104 + Wide{layout.gaps} * 24;
    const Wide offsets_at = bases_at + blocks * 8;
    const Wide end = offsets_at + (Wide{layout.count} * 4 + 7) / 8 * 8;
    if (version == 2 ? end != file.size() : end > file.size()) return std::nullopt;
    layout.bases_at = static_cast<std::size_t>(bases_at);
    layout.offsets_at = static_cast<std::size_t>(offsets_at);
    return layout;
  }

  Wide start(Bytes file, std::uint64_t record) const {
    return Wide{load<std::uint64_t>(file, bases_at + (record >> shift) * 8)} +
           load<std::uint32_t>(file, offsets_at + record * 4);
  }
};

// Returns whether records and gaps cover the stream, one after another.
bool reference_covers(Bytes file, const Layout& layout) {
  const Wide limit = std::numeric_limits<std::int64_t>::max();
  const Wide least = layout.format == 0 ? 16 : 0;
  const Wide stream_end = load<std::uint64_t>(file, 56);
  std::uint64_t gap = 0;
  const auto gap_begin = [&] { return Wide{load<std::uint64_t>(file, 104 + gap * 24)}; };
  const auto gap_end = [&] { return Wide{load<std::uint64_t>(file, 104 + gap * 24 + 8)}; };
  Wide passed = 0;
  for (; gap < layout.gaps; ++gap) {
    if (gap_begin() < passed || gap_end() < gap_begin() || gap_end() > limit) return false;
    if (load<std::uint64_t>(file, 104 + gap * 24 + 16) > 1) return false;
    passed = gap_end();
  }
  gap = 0;
  Wide free_from = load<std::uint64_t>(file, 64);  // the next record or gap starts here, or later
  bool is_exact = true;                            // or exactly here
  for (std::uint64_t i = 0; i < layout.count; ++i) {
    const Wide start = layout.start(file, i);
    Wide end = start;
    if (gap < layout.gaps && gap_begin() < start) {
      if (gap_end() != start) return false;
      end = gap_begin();
      ++gap;
    }
    if (is_exact ? end != free_from : end < free_from) return false;
    free_from = start + least;
    is_exact = false;
  }
  if (stream_end > limit || (is_exact ? stream_end != free_from : stream_end < free_from)) {
    return false;
  }
  Wide end = stream_end;
  if (gap < layout.gaps) {
    if (gap_begin() != end) return false;
    end = gap_end();
    ++gap;
  }
  return gap == layout.gaps && end + load<std::uint64_t>(file, 72) <= limit;
}

bool reference_opens(Bytes file) {
  const auto layout = Layout::of(file);
  return layout && test::reference_crc32c(file.first(100)) == load<std::uint32_t>(file, 100) &&
         test::reference_crc32c(file.subspan(104)) == load<std::uint32_t>(file, 96) &&
         reference_covers(file, *layout);
}

void require_bounded(const Index& index, Bytes file) {
  const std::uint64_t count = index.header().records;
  require(count <= file.size() / 4, "more records than the file has room for");
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::byte* entry = index.offsets().data() + i * 4;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    require(index.locate(i, entry, entry + 4, start, end), "a record was lost");
    require(last <= start && start <= end, "records that overlap");
    require(end <= index.header().stream_end, "an answer outside the stream");
    last = end;
  }
  require(last <= index.stream_bytes(), "a stream that ends before its records");
}

// Scanning in pieces comes to the same result as opening the whole file.
void require_same_scan(Bytes file, std::size_t piece, const std::string& expected) {
  IndexScan scan(file.size());
  for (std::size_t at = 0; at < file.size(); at += piece) {
    if (!scan.add(file.subspan(at, std::min(piece, file.size() - at)))) break;
  }
  std::string reason;
  const auto index = scan.finish(reason);
  require(reason == expected, "another result in pieces: " + reason);
  for (std::size_t page = 0; index != nullptr && page < index->pages(); ++page) {
    const IndexRange range = index->page_range(page);
    require(index->is_page(page, file.subspan(range.offset, range.size)), "a page differs");
  }
}

void run_file(MutableBytes file, bool repair, std::size_t piece) {
  if (repair) {
    if (file.size() >= 12) {
      std::memcpy(file.data(), "\x89TFIDX\r\n\x02\0\0\0", 12);
    }
    test::repair_index(file);
  }
  std::string reason;
  const auto index = Index::open(file, nullptr, reason);
  require((index != nullptr) == reason.empty(), "a refusal without reason, or the reverse");
  require((index != nullptr) == reference_opens(file),
          index ? "opened an invalid index" : "refused: " + reason);
  if (index) require_bounded(*index, file);
  require_same_scan(file, piece, reason);
}

// Each byte is a gap: its lower five bits, shifted by up to 35.
void run_round_trip(Bytes gaps) {
  std::vector<std::uint64_t> starts;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    starts.push_back(at);
    const auto gap = load<std::uint8_t>(gaps, i);
    at += std::uint64_t{gap & 0x1fU} << (gap >> 5) * 5;
  }
  IndexHeader header;
  header.format = 1;  // frames may be empty
  header.stream_end = at;
  const Bytes seek_points = gaps.first(gaps.size() % 7 % (gaps.size() + 1));
  const auto file = encode_index(header, starts, {}, seek_points);
  std::string reason;
  const auto index = Index::open(file, nullptr, reason);
  require(index != nullptr, "its own index refused: " + reason);
  require(reference_opens(file), "its own index is not laid out as described");
  require_bounded(*index, file);
  require(index->header().records == starts.size(), "another count");
  require(index->seek_points().size == seek_points.size(), "another size of the seek points");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::byte* entry = index->offsets().data() + i * 4;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    require(index->locate(i, entry, entry + 4, start, end), "a record was lost");
    require(start == starts[i], "another start");
    require(end == (i + 1 < starts.size() ? starts[i + 1] : at), "another end");
  }
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tio;
  if (size == 0) return 0;
  const Bytes input = std::as_bytes(std::span(data, size));
  const auto options = load<std::uint8_t>(input, 0);
  if (options & 1) {
    fuzz::run_round_trip(input.subspan(1));
    return 0;
  }
  std::vector<std::byte> file(input.begin() + 1, input.end());
  fuzz::run_file(file, (options & 2) != 0, std::size_t{64} + options);
  return 0;
}
