// The markers of JPEGs, in files made by hand.
#include "check.h"
#include "encode.h"
#include "image/jpeg_markers.h"

namespace tio::test {
namespace {

constexpr std::uint32_t kMaxScans = 20;
const std::string kStart = raw({0xff, 0xd8});
const std::string kEnd = raw({0xff, 0xd9});

std::string segment(int code, const std::string& body) {
  const auto size = static_cast<int>(body.size()) + 2;
  return raw({0xff, code, size >> 8, size & 0xff}) + body;
}

// A frame of 33 x 17 pixels; its components are numbered from 1, the first one sampled 2 x 2.
std::string frame(int coding, int components, int precision = 8) {
  std::string body = raw({precision, 0, 17, 0, 33, components});
  for (int i = 1; i <= components; ++i) body += raw({i, i == 1 ? 0x22 : 0x11, 0});
  return segment(coding, body);
}

std::string scan(const std::vector<int>& components, int first = 0, int last = 63, int bits = 0) {
  std::string body = raw({static_cast<int>(components.size())});
  for (const int id : components) body += raw({id, 0});
  return segment(0xda, body + raw({first, last, bits})) + "data" + raw({0xff, 0x00, 0x05});
}

JpegMarkers markers(const std::string& file) {
  const auto data = exact(file);
  return read_jpeg_markers(data, kMaxScans);
}

using Fault = std::optional<JpegFault>;

Fault fault(const std::string& body) { return markers(kStart + body + kEnd).fault; }

void test_valid_files() {
  const std::string tables = segment(0xdb, "table") + segment(0xe1, std::string(300, '\xff'));
  const std::string baseline = kStart + tables + frame(0xc0, 3) + scan({1, 2, 3}) + kEnd;
  const JpegMarkers found = markers(baseline + "anything");
  CHECK(!found.fault.has_value());
  CHECK_EQ(found.coding, 0xc0);
  CHECK_EQ(found.precision, 8);
  CHECK_EQ(found.width, 33);
  CHECK_EQ(found.height, 17);
  CHECK_EQ(found.scans, 1U);
  for (std::size_t size = 0; size < baseline.size(); ++size) {
    CHECK_EQ_IN(markers(baseline.substr(0, size)).fault, Fault(JpegFault::truncated), size);
  }
  CHECK_EQ(fault(frame(0xc1, 3) + scan({2}) + scan({3, 1})), Fault());
  CHECK_EQ(fault(frame(0xc3, 1) + scan({1}, 1, 0)), Fault());
  CHECK_EQ(fault(raw({0xff, 0xff, 0xff}) + frame(0xc0, 1).substr(1) + scan({1})), Fault());
  CHECK_EQ(fault(raw({0xff, 0x01}) + frame(0xc0, 1) + "stray" + scan({1})), Fault());
  CHECK_EQ(fault(scan({1})), Fault(JpegFault::invalid_marker));
  CHECK_EQ(markers("\xff\xd7").fault, Fault(JpegFault::invalid_marker));
}

void test_components_that_share_a_name() {
  std::string header = frame(0xc0, 3);
  header[13] = header[16] = 1;
  CHECK_EQ(fault(header + scan({1, 1, 1})), Fault());
  CHECK_EQ(fault(header + scan({1, 1})), Fault(JpegFault::missing_scans));
}

void test_progressive_files_are_complete() {
  const std::string start = frame(0xc2, 2);
  const std::string first = scan({1, 2}, 0, 0, 1) + scan({1}, 1, 63, 2) + scan({2}, 1, 5);
  const std::string rest = scan({1, 2}, 0, 0, 0x10) + scan({2}, 6, 63) + scan({1}, 1, 63, 0x21);
  CHECK_EQ(fault(start + first + rest + scan({1}, 1, 63, 0x10)), Fault());
  CHECK_EQ(fault(start + first + rest), Fault(JpegFault::missing_scans));
  CHECK_EQ(fault(start + first), Fault(JpegFault::missing_scans));
  CHECK_EQ(fault(start), Fault(JpegFault::missing_scans));
  CHECK_EQ(fault(""), Fault(JpegFault::missing_scans));
  CHECK_EQ(fault(frame(0xc0, 3) + scan({1}) + scan({3})), Fault(JpegFault::missing_scans));
}

void test_restart_markers() {
  const auto with_restarts = [](const std::vector<int>& components, int interval, int count) {
    std::string file = segment(0xdd, raw({0, interval})) + frame(0xc0, 3) + scan(components);
    for (int i = 0; i < count; ++i) file += raw({0xff, 0xd0 + i % 8}) + "more";
    for (const int id : {1, 2, 3}) file += segment(0xdd, raw({0, 0})) + scan({id});
    return fault(file);
  };
  // 33 x 17 pixels are 3 x 2 units of 16 x 16, 5 x 3 blocks of 8 x 8, and 3 x 2 blocks of half the
  // resolution.
  CHECK_EQ(with_restarts({1, 2, 3}, 1, 5), Fault());
  CHECK_EQ(with_restarts({1, 2, 3}, 1, 6), Fault());
  CHECK_EQ(with_restarts({1, 2, 3}, 1, 4), Fault(JpegFault::missing_restarts));
  CHECK_EQ(with_restarts({1, 2, 3}, 4, 1), Fault());
  CHECK_EQ(with_restarts({1, 2, 3}, 4, 0), Fault(JpegFault::missing_restarts));
  CHECK_EQ(with_restarts({1, 2, 3}, 6, 0), Fault());
  CHECK_EQ(with_restarts({1}, 1, 14), Fault());
  CHECK_EQ(with_restarts({1}, 1, 13), Fault(JpegFault::missing_restarts));
  CHECK_EQ(with_restarts({2}, 1, 5), Fault());
  CHECK_EQ(with_restarts({2}, 1, 4), Fault(JpegFault::missing_restarts));
}

void test_limits() {
  std::string scans;
  for (std::uint32_t i = 0; i < kMaxScans; ++i) scans += scan({1});
  CHECK_EQ(fault(frame(0xc2, 1) + scans), Fault());
  CHECK_EQ(fault(frame(0xc2, 1) + scans + scan({1})), Fault(JpegFault::too_many_scans));
  std::string comments;
  for (std::uint32_t i = 0; i + 2 < kMaxJpegSegments; ++i) comments += segment(0xfe, "");
  const std::string good = frame(0xc0, 1) + scan({1});
  CHECK_EQ(fault(comments + good), Fault());
  CHECK_EQ(fault(comments + segment(0xfe, "") + good), Fault(JpegFault::too_many_segments));
  const std::string large = segment(0xe1, std::string(65533, 'x'));
  std::string all_large;
  for (int i = 0; i < 256; ++i) all_large += large;
  CHECK_EQ(fault(all_large + good), Fault());
  CHECK_EQ(fault(all_large + large + good), Fault(JpegFault::too_many_segments));
  CHECK_EQ(fault(std::string(kMaxStrayJpegBytes, 'x') + good), Fault());
  CHECK_EQ(fault("x" + std::string(kMaxStrayJpegBytes, 'x') + good), Fault(JpegFault::stray_bytes));
  CHECK_EQ(fault(good + std::string(kMaxStrayJpegBytes + 1, 'x')), Fault());
}

void test_invalid_files() {
  const auto is_invalid = [](const std::string& body) {
    CHECK_EQ_IN(fault(body), Fault(JpegFault::invalid_marker), body);
  };
  const std::string good = frame(0xc0, 1) + scan({1});
  for (const int code : {0x02, 0xbf, 0xd8}) is_invalid(raw({0xff, code}) + good);
  is_invalid(raw({0xff, 0xe0, 0, 1}) + good);
  is_invalid(segment(0xdd, "x") + good);
  is_invalid(segment(0xc0, "short"));
  is_invalid(frame(0xc0, 0));
  is_invalid(frame(0xc0, 5));
  for (const int at : {5, 7}) {  // the low bytes of height and width
    std::string empty = good;
    empty[static_cast<std::size_t>(at) + 1] = 0;
    is_invalid(empty);
  }
  for (const int samples : {0x01, 0x10, 0x51, 0x15}) {
    std::string odd = good;
    odd[11] = static_cast<char>(samples);
    is_invalid(odd);
  }
  is_invalid(frame(0xc0, 1) + scan({2}));
  is_invalid(frame(0xc0, 2) + scan({1, 1}));
  is_invalid(frame(0xc0, 1) + scan({}));
  is_invalid(frame(0xc0, 1) + scan({1, 1}));
  is_invalid(frame(0xc2, 1) + scan({1}, 6, 5));
  is_invalid(frame(0xc2, 1) + scan({1}, 0, 64));
  is_invalid(frame(0xc2, 1) + segment(0xda, ""));
}

void test_unsupported_files() {
  for (const int coding : {0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf}) {
    CHECK_EQ(fault(frame(coding, 1) + scan({1})), Fault(JpegFault::unsupported_coding));
  }
  CHECK_EQ(fault(frame(0xc1, 1, 12) + scan({1})), Fault(JpegFault::unsupported_precision));
  CHECK_EQ(fault(frame(0xc0, 1) + frame(0xc0, 1) + scan({1})), Fault(JpegFault::several_frames));
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_valid_files();
  test_components_that_share_a_name();
  test_progressive_files_are_complete();
  test_restart_markers();
  test_limits();
  test_invalid_files();
  test_unsupported_files();
  return finish();
}
