#include "image/jpeg_markers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "wire/cursor.h"

namespace tio {
namespace {

// Second bytes of markers. The first one is 0xff.
namespace marker {
constexpr std::uint8_t kTemporary = 0x01;
constexpr std::uint8_t kBaseline = 0xc0;  // frames: 0xc0 to 0xcf, without the next three
constexpr std::uint8_t kHuffmanTables = 0xc4;
constexpr std::uint8_t kExtension = 0xc8;
constexpr std::uint8_t kArithmeticTables = 0xcc;
constexpr std::uint8_t kProgressive = 0xc2;
constexpr std::uint8_t kLossless = 0xc3;
constexpr std::uint8_t kFirstRestart = 0xd0;
constexpr std::uint8_t kLastRestart = 0xd7;
constexpr std::uint8_t kStart = 0xd8;
constexpr std::uint8_t kEnd = 0xd9;
constexpr std::uint8_t kScan = 0xda;
constexpr std::uint8_t kRestartInterval = 0xdd;
}  // namespace marker

constexpr std::size_t kCoefficients = 64;
constexpr std::size_t kMaxComponents = 4;

struct Component {
  std::uint8_t id = 0;
  std::uint8_t horizontal = 1;  // samples in each direction, relative to other components
  std::uint8_t vertical = 1;
  // Number of low bits that are still missing of each coefficient.
  std::array<std::uint8_t, kCoefficients> missing_bits{};
};

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

std::uint8_t byte_at(Bytes bytes, std::size_t at) { return load<std::uint8_t>(bytes, at); }

std::uint16_t big_endian_16(Bytes bytes, std::size_t at) {
  return static_cast<std::uint16_t>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}

bool is_frame(std::uint8_t code) {
  return code >= marker::kBaseline && code <= 0xcf && code != marker::kHuffmanTables &&
         code != marker::kExtension && code != marker::kArithmeticTables;
}

class MarkerWalk {
 public:
  MarkerWalk(Bytes data, std::uint32_t max_scans)
      : data_(data), cursor_(data), max_scans_(max_scans) {}

  JpegMarkers run() {
    found_.fault = read_all();
    return found_;
  }

 private:
  using Fault = std::optional<JpegFault>;

  Fault read_all() {
    Bytes start;
    if (!cursor_.read_bytes(2, start)) return JpegFault::truncated;
    if (big_endian_16(start, 0) != (0xff00 | marker::kStart)) return JpegFault::invalid_marker;
    for (;;) {
      std::uint8_t code = 0;
      if (!find_marker(code)) return JpegFault::truncated;
      if (stray_bytes_ > kMaxStrayJpegBytes) return JpegFault::stray_bytes;
      if (code >= marker::kFirstRestart && code <= marker::kLastRestart) {
        ++restarts_;
        continue;
      }
      if (code == marker::kTemporary) continue;
      if (in_scan_ && restarts_ < expected_restarts_) return JpegFault::missing_restarts;
      in_scan_ = false;
      if (code == marker::kEnd) return is_complete() ? Fault() : JpegFault::missing_scans;
      if (const Fault fault = read_segment(code)) return fault;
    }
  }

  // Moves past the next marker. A zero byte after 0xff makes that a byte of a scan, and more bytes
  // 0xff may come before the code.
  bool find_marker(std::uint8_t& code) {
    for (;;) {
      const std::size_t from = cursor_.position();
      const void* const next =
          cursor_.done() ? nullptr : std::memchr(data_.data() + from, 0xff, cursor_.remaining());
      if (next == nullptr) return false;
      const auto skipped =
          static_cast<std::size_t>(static_cast<const std::byte*>(next) - (data_.data() + from));
      if (!in_scan_) stray_bytes_ += skipped;
      cursor_.skip(skipped);
      do {
        if (!cursor_.read(code)) return false;
      } while (code == 0xff);
      if (code != 0) return true;
    }
  }

  Fault read_segment(std::uint8_t code) {
    if (code < marker::kBaseline || code == marker::kStart) return JpegFault::invalid_marker;
    if (++segments_ > kMaxJpegSegments) return JpegFault::too_many_segments;
    Bytes size;
    Bytes body;
    if (!cursor_.read_bytes(2, size)) return JpegFault::truncated;
    if (big_endian_16(size, 0) < 2) return JpegFault::invalid_marker;
    if (!cursor_.read_bytes(big_endian_16(size, 0) - 2U, body)) return JpegFault::truncated;
    segment_bytes_ += body.size();
    if (segment_bytes_ > kMaxJpegSegmentBytes) return JpegFault::too_many_segments;
    if (is_frame(code)) return read_frame(code, body);
    if (code == marker::kScan) return read_scan(body);
    if (code == marker::kRestartInterval) {
      if (body.size() != 2) return JpegFault::invalid_marker;
      restart_interval_ = big_endian_16(body, 0);
    }
    return {};
  }

  Fault read_frame(std::uint8_t code, Bytes body) {
    if (found_.coding != 0) return JpegFault::several_frames;
    if (body.size() < 6) return JpegFault::invalid_marker;
    found_.coding = code;
    found_.precision = byte_at(body, 0);
    found_.height = big_endian_16(body, 1);
    found_.width = big_endian_16(body, 3);
    if (code > marker::kLossless) return JpegFault::unsupported_coding;
    if (found_.precision != 8) return JpegFault::unsupported_precision;
    count_ = byte_at(body, 5);
    const bool is_sized = found_.width != 0 && found_.height != 0;
    if (!is_sized || count_ == 0 || count_ > kMaxComponents || body.size() != 6 + 3 * count_) {
      return JpegFault::invalid_marker;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      Component& component = components_[i];
      component.id = byte_at(body, 6 + 3 * i);
      component.horizontal = byte_at(body, 7 + 3 * i) >> 4;
      component.vertical = byte_at(body, 7 + 3 * i) & 15;
      component.missing_bits.fill(0xff);
      for (const std::uint8_t samples : {component.horizontal, component.vertical}) {
        if (samples < 1 || samples > 4) return JpegFault::invalid_marker;
      }
      max_horizontal_ = std::max(max_horizontal_, component.horizontal);
      max_vertical_ = std::max(max_vertical_, component.vertical);
    }
    return {};
  }

  Fault read_scan(Bytes body) {
    const std::size_t count = body.empty() ? 0 : byte_at(body, 0);
    if (found_.coding == 0 || count == 0 || count > count_ || body.size() != 4 + 2 * count) {
      return JpegFault::invalid_marker;
    }
    if (++found_.scans > max_scans_) return JpegFault::too_many_scans;
    const bool is_progressive = found_.coding == marker::kProgressive;
    const std::size_t first = is_progressive ? byte_at(body, 1 + 2 * count) : 0;
    const std::size_t last =
        is_progressive ? byte_at(body, 2 + 2 * count) : std::size_t{kCoefficients - 1};
    const auto low = static_cast<std::uint8_t>(byte_at(body, 3 + 2 * count) & 15);
    if (first > last || last >= kCoefficients) return JpegFault::invalid_marker;
    std::array<bool, kMaxComponents> used{};
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      at = find_component(byte_at(body, 1 + 2 * i), used);
      if (at == count_) return JpegFault::invalid_marker;
      used[at] = true;
      const auto missing = std::span(components_[at].missing_bits).subspan(first, last - first + 1);
      std::ranges::fill(missing, is_progressive ? low : std::uint8_t{0});
    }
    expected_restarts_ = restarts_in_scan(count == 1 ? &components_[at] : nullptr);
    in_scan_ = true;
    restarts_ = 0;
    return {};
  }

  // Components of several names alike are meant in their order.
  std::size_t find_component(std::uint8_t id, const std::array<bool, kMaxComponents>& used) const {
    std::size_t at = 0;
    while (at < count_ && (components_[at].id != id || used[at])) ++at;
    return at;
  }

  // A restart marker stands after each interval of units, except for the last one. A unit of a
  // scan of one component is a block of it, otherwise as many blocks as make one of the least
  // sampled component.
  std::uint64_t restarts_in_scan(const Component* only) const {
    if (restart_interval_ == 0 || found_.coding == marker::kLossless) return 0;
    const std::uint64_t across = only == nullptr ? 1 : only->horizontal;
    const std::uint64_t down = only == nullptr ? 1 : only->vertical;
    const std::uint64_t units = divide_up(found_.width * across, 8ULL * max_horizontal_) *
                                divide_up(found_.height * down, 8ULL * max_vertical_);
    return divide_up(units, restart_interval_) - 1;
  }

  bool is_complete() const {
    const auto whole = [](const Component& component) {
      return std::ranges::all_of(component.missing_bits, [](auto bits) { return bits == 0; });
    };
    return count_ != 0 && std::ranges::all_of(std::span(components_).first(count_), whole);
  }

  Bytes data_;
  Cursor cursor_;
  std::uint32_t max_scans_;
  JpegMarkers found_;
  std::array<Component, kMaxComponents> components_;
  std::size_t count_ = 0;
  std::uint8_t max_horizontal_ = 1;
  std::uint8_t max_vertical_ = 1;
  std::uint32_t segments_ = 0;
  std::size_t segment_bytes_ = 0;
  std::size_t stray_bytes_ = 0;
  std::uint64_t restart_interval_ = 0;
  bool in_scan_ = false;
  std::uint64_t restarts_ = 0;
  std::uint64_t expected_restarts_ = 0;
};

}  // namespace

JpegMarkers read_jpeg_markers(Bytes data, std::uint32_t max_scans) {
  return MarkerWalk(data, max_scans).run();
}

}  // namespace tio
