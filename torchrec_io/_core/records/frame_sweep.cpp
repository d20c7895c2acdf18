#include "records/frame_sweep.h"

#include <algorithm>
#include <array>
#include <utility>

#include "wire/crc32c.h"
#include "wire/crc32c_ranges.h"

namespace tio {
namespace {

// The CRC of a length, bit by bit.
constexpr std::uint32_t slow_length_crc(std::uint64_t length) {
  std::uint32_t crc = ~0U;
  for (int bit = 0; bit < 64; ++bit, length >>= 1) {
    const bool is_odd = ((crc ^ length) & 1) != 0;
    crc = (crc >> 1) ^ (is_odd ? 0x82f63b78U : 0);
  }
  return ~crc;
}

constexpr std::uint32_t kZeroCrc = slow_length_crc(0);

// For each of the lower four bytes, what each of its values changes in the CRC of zero.
constexpr auto kChanges = [] {
  std::array<std::array<std::uint32_t, 256>, 4> changes{};
  for (std::size_t byte = 0; byte < 4; ++byte) {
    for (std::uint64_t value = 0; value < 256; ++value) {
      changes[byte][value] = slow_length_crc(value << (8 * byte)) ^ kZeroCrc;
    }
  }
  return changes;
}();

// Returns the CRC of a length of less than 4 GiB. In arrays of integers, every eighth offset looks
// like such a length, so this is several times faster than the function for any data.
std::uint32_t short_length_crc(std::uint64_t length) {
  return kZeroCrc ^ kChanges[0][length & 0xff] ^ kChanges[1][(length >> 8) & 0xff] ^
         kChanges[2][(length >> 16) & 0xff] ^ kChanges[3][(length >> 24) & 0xff];
}

// Returns whether the length in a header matches its CRC.
bool is_valid_length(Bytes header, std::uint64_t length) {
  const std::uint32_t crc =
      (length >> 32) == 0 ? short_length_crc(length) : crc32c(header.first(8));
  return mask_crc(crc) == load<std::uint32_t>(header, 8);
}

enum class Verdict { valid, one_damaged, damaged, undecided };

// What was found out about the frame at an offset.
struct Finding {
  Verdict verdict;
  std::uint64_t size = 0;  // of a frame that is valid or damaged alone; needed bytes if undecided
  FrameFault fault = FrameFault::length_crc;
};

class Sweeper {
 public:
  Sweeper(Bytes window, std::uint64_t left, std::uint64_t max_record_bytes)
      : window_(window), left_(left), max_record_bytes_(max_record_bytes), ranges_(window) {}

  FrameSweep run(bool is_in_gap) {
    if (is_in_gap) sweep_.open_gap.emplace();
    while (true) {
      if (sweep_.open_gap) skip_impossible();
      if (is_at_end() && at() == window_.size()) break;
      const Finding finding = examine();
      if (finding.verdict == Verdict::undecided) {
        sweep_.needed = finding.size;
        break;
      }
      add(finding);
    }
    return std::move(sweep_);
  }

 private:
  std::uint64_t at() const { return sweep_.at; }
  bool is_at_end() const { return left_ == window_.size(); }

  // Moves on to the next offset where a valid header starts or could start.
  void skip_impossible() {
    std::uint64_t at = sweep_.at;
    for (; window_.size() - at >= kFrameHeaderBytes; ++at) {
      const auto length = load<std::uint64_t>(window_, at);
      // Most offsets end here, because few numbers of 8 bytes are that small.
      if (length <= max_record_bytes_ &&
          is_valid_length(window_.subspan(at, kFrameHeaderBytes), length)) {
        break;
      }
    }
    const bool is_rest = window_.size() - at < kFrameHeaderBytes;
    sweep_.at = is_rest && is_at_end() ? window_.size() : at;
  }

  Finding examine() {
    const Bytes rest = window_.subspan(at());
    if (rest.size() < kFrameHeaderBytes) {
      if (is_at_end()) return {Verdict::damaged, 0, FrameFault::truncated_header};
      return {Verdict::undecided, kFrameHeaderBytes};
    }
    const auto length = load<std::uint64_t>(rest, 0);
    const std::uint64_t left = left_ - at();
    if (!is_valid_length(rest, length)) return {Verdict::damaged, 0, FrameFault::length_crc};
    // First, because the end of the stream may be unknown.
    if (length > max_record_bytes_) return {Verdict::damaged, 0, FrameFault::too_large};
    if (left < kFrameOverheadBytes || length > left - kFrameOverheadBytes) {
      return {Verdict::damaged, 0, FrameFault::past_end};
    }
    const std::uint64_t size = kFrameOverheadBytes + length;
    if (size > rest.size()) return {Verdict::undecided, size};
    const std::uint64_t data = at() + kFrameHeaderBytes;
    const auto stored = load<std::uint32_t>(window_, data + length);
    if (mask_crc(ranges_.crc(data, data + length)) == stored) return {Verdict::valid, size};
    return examine_end(size);
  }

  // Decides whether the length of a frame with damaged data can be believed.
  Finding examine_end(std::uint64_t size) const {
    constexpr Finding kDamaged = {Verdict::damaged, 0, FrameFault::data_crc};
    if (sweep_.open_gap) return kDamaged;
    const Bytes next = window_.subspan(at() + size);
    const Finding one = {Verdict::one_damaged, size, FrameFault::data_crc};
    if (next.size() >= kFrameHeaderBytes) {
      return is_valid_length(next, load<std::uint64_t>(next, 0)) ? one : kDamaged;
    }
    if (!is_at_end()) return {Verdict::undecided, size + kFrameHeaderBytes};
    return next.empty() ? one : kDamaged;
  }

  void add(const Finding& finding) {
    if (finding.verdict == Verdict::damaged) {
      if (!sweep_.open_gap) sweep_.open_gap = FrameGap{at(), 0, finding.fault, false};
      ++sweep_.at;
      return;
    }
    if (sweep_.open_gap) {
      sweep_.open_gap->end = at();
      sweep_.gaps.push_back(*sweep_.open_gap);
      sweep_.open_gap.reset();
    }
    if (finding.verdict == Verdict::valid) {
      sweep_.starts.push_back(at());
      sweep_.lengths.push_back(finding.size - kFrameOverheadBytes);
    } else {
      sweep_.gaps.push_back({at(), at() + finding.size, finding.fault, true});
    }
    sweep_.at += finding.size;
  }

  Bytes window_;
  std::uint64_t left_;
  std::uint64_t max_record_bytes_;
  CrcRanges ranges_;
  FrameSweep sweep_;
};

}  // namespace

FrameSweep sweep_frames(Bytes window, std::uint64_t left, std::uint64_t max_record_bytes,
                        bool is_in_gap) {
  return Sweeper(window, left, max_record_bytes).run(is_in_gap);
}

}  // namespace tio
