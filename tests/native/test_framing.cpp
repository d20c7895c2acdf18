// Scanning and checking TFRecord frames: every truncation of a good file, and wrong lengths.
#include <limits>

#include "check.h"
#include "encode.h"
#include "records/framing.h"
#include "repair.h"

namespace tio::test {
namespace {

constexpr std::optional<FrameFault> kNoFault;

constexpr std::uint64_t kUnknownEnd = std::numeric_limits<std::uint64_t>::max();

const std::vector<std::string>& records() {
  static const std::vector<std::string> all = {"", "a", std::string(20, 'b'), "", "hello"};
  return all;
}

std::string good_file() {
  std::string file;
  for (const auto& record : records()) file += frame(record);
  return file;
}

struct Walk {
  std::vector<std::uint64_t> starts;
  std::uint64_t next = 0;
  std::optional<FrameFault> fault;

  bool operator==(const Walk&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Walk& walk) {
  return out << describe(walk.starts) << " next " << walk.next << " fault " << describe(walk.fault);
}

// The expected scan of a good file that is truncated to `size` bytes.
Walk walk_of_cut(std::uint64_t size) {
  Walk walk;
  for (const auto& record : records()) {
    const std::uint64_t end = walk.next + kFrameOverheadBytes + record.size();
    if (end > size) {
      if (size - walk.next >= kFrameHeaderBytes) walk.fault = FrameFault::past_end;
      return walk;
    }
    walk.starts.push_back(walk.next);
    walk.next = end;
  }
  return walk;
}

// Scans `file` in windows that end at each of `ends`, as a reader does: each window starts where
// the last scan stopped.
Walk scan_in_windows(const std::string& file, const std::vector<std::size_t>& ends,
                     std::uint64_t offset, std::uint64_t stream_end) {
  Walk walk;
  walk.next = offset;
  for (const std::size_t end : ends) {
    if (walk.next - offset > end || walk.fault) continue;
    const auto window = exact(file.substr(walk.next - offset, end - (walk.next - offset)));
    const FrameScan scan = scan_frames(window, walk.next, stream_end);
    walk.starts.insert(walk.starts.end(), scan.starts.begin(), scan.starts.end());
    walk.next = scan.next;
    walk.fault = scan.fault;
  }
  return walk;
}

void test_every_cut_in_every_two_windows() {
  const std::string file = good_file();
  for (std::size_t size = 0; size <= file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    const Walk wanted = walk_of_cut(size);
    for (std::size_t split = 0; split <= size; ++split) {
      CHECK_EQ_IN(scan_in_windows(cut, {split, size}, 0, size), wanted, split);
    }
    std::vector<std::size_t> every;
    for (std::size_t end = 0; end <= size; ++end) every.push_back(end);
    CHECK_EQ_IN(scan_in_windows(cut, every, 0, size), wanted, size);
  }
}

void test_window_inside_a_stream() {
  const std::string file = good_file();
  for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{1} << 40,
                                     kUnknownEnd - file.size() - 1, kUnknownEnd - file.size()}) {
    Walk wanted = walk_of_cut(file.size());
    for (auto& start : wanted.starts) start += offset;
    wanted.next += offset;
    CHECK_EQ(scan_in_windows(file, {file.size()}, offset, offset + file.size()), wanted);
    CHECK_EQ(scan_in_windows(file, {file.size()}, offset, kUnknownEnd), wanted);
  }
}

void test_data_behind_the_window() {
  const auto window = exact(frame("", 1000).substr(0, kFrameHeaderBytes));
  const FrameScan scan = scan_frames(window, 0, 1016);
  CHECK_EQ(scan.starts, std::vector<std::uint64_t>{0});
  CHECK_EQ(scan.next, 1016U);
  CHECK_EQ(scan.fault, kNoFault);
  CHECK_EQ(scan_frames(window, 0, 1015).fault, FrameFault::past_end);
  CHECK_EQ(scan_frames(window, 0, 1015).next, 0U);
}

void test_damaged_length() {
  const std::string file = good_file();
  const std::size_t second = kFrameOverheadBytes;  // after the empty first record
  for (std::size_t at = second; at < second + kFrameHeaderBytes; ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const FrameScan scan = scan_frames(exact(damaged), 0, file.size());
      CHECK_EQ(scan.fault, FrameFault::length_crc);
      CHECK_EQ(scan.next, second);
      CHECK_EQ(scan.starts, std::vector<std::uint64_t>{0});
      CHECK_EQ(check_frame(exact(damaged), second, 1, true), FrameFault::length_crc);
      const bool is_crc = at >= second + 8;
      CHECK_EQ(check_frame(exact(damaged), second, 1, false),
               is_crc ? kNoFault : FrameFault::length_mismatch);
      if (is_crc) {
        const FrameScan lenient = scan_frames(exact(damaged), 0, file.size(), false);
        CHECK_EQ(lenient.fault, kNoFault);
        CHECK_EQ(lenient.next, file.size());
      }
    }
  }
}

// Wrong lengths with a valid checksum, up to those where adding the overhead wraps around.
void test_huge_lengths() {
  std::vector<std::uint64_t> lengths = {std::uint64_t{1} << 40, std::uint64_t{1} << 62,
                                        (std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63};
  for (std::uint64_t less = 1; less <= 40; ++less) lengths.push_back(std::uint64_t{0} - less);
  for (const std::uint64_t length : lengths) {
    const auto file = exact(frame("ab") + frame("cd", length) + frame("ef"));
    for (const std::uint64_t end : {std::uint64_t{file.size()}, std::uint64_t{1} << 39}) {
      const FrameScan scan = scan_frames(file, 0, end);
      CHECK_EQ_IN(scan.fault, FrameFault::past_end, length);
      CHECK_EQ_IN(scan.next, 18U, length);
      CHECK_EQ_IN(scan_frames(file, 0, end, false).fault, FrameFault::past_end, length);
    }
    for (const bool check_crcs : {false, true}) {
      CHECK_EQ_IN(check_frame(file, 18, length, check_crcs), FrameFault::past_end, length);
      CHECK_EQ_IN(check_frame(file, 18, 2, check_crcs), FrameFault::length_mismatch, length);
    }
    // With an unknown end: a length that extends past the largest offset.
    if (length > kUnknownEnd - 18 - kFrameOverheadBytes) {
      CHECK_EQ_IN(scan_frames(file, 0, kUnknownEnd).fault, FrameFault::past_end, length);
    }
  }
}

void test_stray_bytes() {
  const std::string file = good_file();
  for (std::size_t extra = 1; extra < 30; ++extra) {
    const auto padded = exact(file + std::string(extra, '\0'));
    const FrameScan scan = scan_frames(padded, 0, padded.size());
    CHECK_EQ(scan.starts.size(), records().size());
    CHECK_EQ(scan.next, file.size());
    // Zeros are not a header, because the checksum of zeros is not zero.
    CHECK_EQ(scan.fault, extra < kFrameHeaderBytes ? kNoFault : FrameFault::length_crc);
  }
}

void test_check_frame() {
  const std::string file = good_file();
  const auto bytes = exact(file);
  std::uint64_t at = 0;
  for (const auto& record : records()) {
    CHECK_EQ(check_frame(bytes, at, record.size(), true), kNoFault);
    CHECK_EQ(check_frame(bytes, at, record.size() + 1, true), FrameFault::length_mismatch);
    const std::uint64_t end = at + kFrameOverheadBytes + record.size();
    for (std::uint64_t size = 0; size < end; ++size) {
      CHECK_EQ_IN(check_frame(exact(file.substr(0, size)), at, record.size(), true),
                  FrameFault::past_end, size);
    }
    at = end;
  }
  CHECK_EQ(check_frame(bytes, at, 0, true), FrameFault::past_end);
  CHECK_EQ(check_frame(bytes, at + 1, 0, true), FrameFault::past_end);
  CHECK_EQ(check_frame(bytes, kUnknownEnd, 0, true), FrameFault::past_end);
}

void test_damaged_data() {
  const std::string file = frame("some data");
  for (std::size_t at = kFrameHeaderBytes; at < file.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      CHECK_EQ(check_frame(exact(damaged), 0, 9, true), FrameFault::data_crc);
      CHECK_EQ(check_frame(exact(damaged), 0, 9, false), kNoFault);
    }
  }
}

void test_writing() {
  const std::string large(100'000, '\x5a');
  for (const std::string& record :
       {std::string(), std::string("a"), std::string(20, '\0'), large}) {
    const std::string wanted = frame(record);
    std::string out(wanted.size() + 3, '!');  // the bytes after it stay unchanged
    const auto bytes = exact(record);
    const Bytes view = bytes;
    write_frames({&view, 1}, {reinterpret_cast<std::byte*>(out.data()), out.size()});
    CHECK_EQ(out, wanted + "!!!");
    const FrameEnds ends = frame_ends(exact(record));
    const std::string header(reinterpret_cast<const char*>(ends.header.data()), 12);
    const std::string footer(reinterpret_cast<const char*>(ends.footer.data()), 4);
    CHECK_EQ(header + record + footer, wanted);
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  using namespace tio::test;
  test_every_cut_in_every_two_windows();
  test_window_inside_a_stream();
  test_data_behind_the_window();
  test_damaged_length();
  test_huge_lengths();
  test_stray_bytes();
  test_check_frame();
  test_damaged_data();
  test_writing();
  return finish();
}
