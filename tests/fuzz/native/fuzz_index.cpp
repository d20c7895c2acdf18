// Opens index files of any bytes, with or without corrected checksums: they open only if their
// sizes match, and never locate a record outside of the stream. Indexes of any starts are read
// back.
//
// Input: options, then the file, or gaps between records.
#include <limits>
#include <vector>

#include "records/index.h"
#include "reference.h"
#include "repair.h"
#include "require.h"

namespace tio::fuzz {
namespace {

__extension__ using Wide = unsigned __int128;

// Returns whether a file is an index by its layout (docs/index-format.md), computed in 128 bits.
bool reference_opens(Bytes file, bool check_body) {
  constexpr char kMagic[] = "\x89TFIDX\r\n";
  if (file.size() < 80 || std::memcmp(file.data(), kMagic, 8) != 0) return false;
  if (load<std::uint32_t>(file, 8) != 1) return false;
  if (test::reference_crc32c(file.first(76)) != load<std::uint32_t>(file, 76)) return false;
  if (load<std::uint32_t>(file, 16) > 2) return false;  // none, gzip or zlib
  const auto shift = load<std::uint32_t>(file, 20);
  if (shift > 12) return false;
  const Wide count = load<std::uint64_t>(file, 24);
  const Wide restarts = load<std::uint64_t>(file, 64);
  const Wide blocks = (count + (Wide{1} << shift) - 1) >> shift;
  const Wide wanted = 80 + blocks * 8 + (count * 4 + 7) / 8 * 8 + restarts * 16;
  if (wanted != file.size()) return false;
  return !check_body || test::reference_crc32c(file.subspan(80)) == load<std::uint32_t>(file, 72);
}

void require_bounded(const IndexView& view, Bytes file) {
  const std::uint64_t count = view.header().records;
  require(count <= file.size() / 4, "more records than the file has room for");
  for (std::uint64_t i = 0; i <= count + 1; ++i) {
    // The last iteration locates a record far past the end.
    const std::uint64_t record = i == count + 1 ? std::numeric_limits<std::uint64_t>::max() : i;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    if (!view.locate(record, start, end)) continue;
    require(record < count, "an answer for no record");
    require(start <= end && end <= view.header().stream_end, "an answer outside the stream");
  }
  require(view.restarts().size() == view.header().restarts, "another number of restarts");
}

void run_file(MutableBytes file, bool repair) {
  if (repair) {
    if (file.size() >= 12) {
      std::memcpy(file.data(), "\x89TFIDX\r\n\x01\0\0\0", 12);
    }
    test::repair_index(file);
  }
  for (const bool check_body : {false, true}) {
    std::string reason;
    const auto view = IndexView::open(file, check_body, reason);
    require(view.has_value() == reason.empty(), "a refusal without reason, or the reverse");
    require(view.has_value() == reference_opens(file, check_body),
            view ? "opened an invalid index" : "refused: " + reason);
    if (view) require_bounded(*view, file);
  }
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
  header.stream_end = at;
  const std::vector<Restart> restarts(gaps.size() % 5, Restart{at, gaps.size()});
  const auto file = encode_index(header, starts, restarts);
  std::string reason;
  const auto view = IndexView::open(file, true, reason);
  require(view.has_value(), "its own index refused: " + reason);
  require(reference_opens(file, true), "its own index is not laid out as described");
  require_bounded(*view, file);
  require(view->header().records == starts.size(), "another count");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    require(view->locate(i, start, end), "a record was lost");
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
  fuzz::run_file(file, (options & 2) != 0);
  return 0;
}
