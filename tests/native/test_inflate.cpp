// Decompression in pieces, compared with what libdeflate compressed.
#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "deflated.h"
#include "encode.h"
#include "inflate/stream.h"

namespace tio::test {
namespace {

constexpr std::array kFormats = {Format::deflate, Format::gzip, Format::zlib};
constexpr std::size_t kGuardBytes = 512;
constexpr std::byte kGuard{0xa5};

// How a stream is decoded: the largest sizes of the pieces of input and output.
struct Pieces {
  std::size_t in = 1 << 19;
  std::size_t out = 1 << 19;
};

struct Result {
  std::string bytes;
  std::size_t consumed = 0;
  bool is_done = false;
  std::string reason;
};

// Decodes as far as possible. The output is followed by bytes that must stay.
Result inflate(InflateStream& stream, const std::string& file, const Pieces& pieces = {}) {
  Result result;
  const std::vector<std::byte> in = exact(file);
  std::size_t given = std::min(in.size(), pieces.in);
  std::vector<std::byte> memory(pieces.out + kGuardBytes, kGuard);
  while (!stream.is_done()) {
    const std::vector<std::byte> input(in.begin() + result.consumed, in.begin() + given);
    const MutableBytes out = MutableBytes(memory).first(pieces.out);
    Inflated step;
    const bool is_good = stream.decode(input, out, step, result.reason);
    CHECK_EQ(is_good, result.reason.empty());
    CHECK(std::all_of(memory.end() - kGuardBytes, memory.end(),
                      [](std::byte byte) { return byte == kGuard; }));
    if (!is_good) break;
    CHECK(step.consumed <= input.size() && step.produced <= pieces.out);
    result.consumed += step.consumed;
    result.bytes.append(reinterpret_cast<const char*>(memory.data()), step.produced);
    if (step.produced != 0 || stream.is_done()) continue;
    if (given == in.size()) break;
    given = std::min(in.size(), given + pieces.in);
  }
  result.is_done = stream.is_done();
  return result;
}

Result inflate(Format format, const std::string& file, const Pieces& pieces = {}) {
  InflateStream stream(format);
  return inflate(stream, file, pieces);
}

void test_pieces_of_any_size() {
  std::mt19937_64 random(1);
  for (const Format format : kFormats) {
    for (const int level : {0, 1, 6, 12}) {
      for (const std::size_t size : {0, 1, 100, 40'000, 150'000}) {
        const std::string bytes = repeating_bytes(size, random);
        const std::string file = deflated(bytes, format, level);
        for (const std::size_t in : {70U, 5'000U, 1U << 19}) {
          for (const std::size_t out : {1'000U, 32'768U, 70'000U, 1U << 19}) {
            const Result found = inflate(format, file + "following", {in, out});
            CHECK_EQ(found.reason, "");
            CHECK(found.is_done);
            CHECK(found.bytes == bytes);
            CHECK_EQ(found.consumed, file.size());
          }
        }
      }
    }
    const std::string bytes = repeating_bytes(3'000, random);
    const Result found = inflate(format, deflated(bytes, format), {1, 1});
    CHECK(found.is_done && found.bytes == bytes);
  }
}

// Moves a stream to a bit of its first byte, whose other bits are set.
std::string shifted(const std::string& stream, int bit) {
  BitWriter writer;
  writer.bits(0xff, static_cast<unsigned>(bit));
  for (const char byte : stream) writer.bits(static_cast<unsigned char>(byte), 8);
  return writer.bytes();
}

void test_starts_at_any_bit() {
  std::mt19937_64 random(4);
  const std::string bytes = repeating_bytes(100'000, random);
  for (const int level : {0, 1, 9}) {
    const std::string stream = deflated(bytes, Format::deflate, level);
    for (int bit = 0; bit < 8; ++bit) {
      const std::string file = shifted(stream, bit);
      InflateStream inside({}, bit, static_cast<std::byte>(file[0]));
      const Result found = inflate(inside, file.substr(bit == 0 ? 0 : 1), {1'000, 30'000});
      // Stored blocks are aligned to bytes of the file.
      if (level == 0 && bit != 0) continue;
      CHECK_EQ_IN(found.reason, "", bit);
      CHECK(found.is_done && found.bytes == bytes);
    }
  }
}

// A stream of three bytes that are repeated from a distance, with the fixed codes.
std::string repeat_from(unsigned distance_code, unsigned extra, unsigned extra_bits) {
  BitWriter writer;
  writer.bits(1, 1);  // the last block
  writer.bits(1, 2);
  writer.code(1, 7);  // three bytes
  writer.code(distance_code, 5);
  writer.bits(extra, extra_bits);
  writer.code(0, 7);  // the end
  return writer.bytes();
}

void test_windows() {
  std::mt19937_64 random(5);
  const std::string window = repeating_bytes(InflateStream::kWindowBytes, random);
  const std::string far = repeat_from(29, (1 << 13) - 1, 13);  // 32,768
  const std::string near = repeat_from(3, 0, 0);               // 4
  const auto inflate_after = [](const std::string& before, const std::string& file) {
    const std::vector<std::byte> memory = exact(before);
    InflateStream stream(memory, 0, std::byte{0});
    return inflate(stream, file);
  };
  CHECK_EQ(inflate_after(window, far).bytes, window.substr(0, 3));
  CHECK_EQ(inflate_after("more" + window, far).bytes, window.substr(0, 3));
  CHECK_EQ(inflate_after(window, near).bytes, window.substr(window.size() - 4, 3));
  CHECK_EQ(inflate_after("abcd", near).bytes, "abc");
  CHECK_EQ(inflate_after("abc", near).reason, "a distance is too large");
  CHECK_EQ(inflate_after("", near).reason, "a distance is too large");
  CHECK_EQ(inflate_after(window.substr(1), far).reason, "a distance is too large");
}

void test_truncated_streams_are_not_done() {
  std::mt19937_64 random(6);
  const std::string bytes = repeating_bytes(2'000, random);
  for (const Format format : kFormats) {
    const std::string file = deflated(bytes, format);
    for (std::size_t size = 0; size < file.size(); ++size) {
      const Result found = inflate(format, file.substr(0, size), {13, 700});
      CHECK_EQ_IN(found.reason, "", size);
      CHECK(!found.is_done);
      CHECK(bytes.starts_with(found.bytes));
    }
  }
}

void test_damage_is_found() {
  std::mt19937_64 random(7);
  const std::string bytes = repeating_bytes(2'000, random);
  for (const Format format : {Format::gzip, Format::zlib}) {
    const std::string file = deflated(bytes, format);
    for (std::size_t at = 0; at < file.size(); ++at) {
      std::string wrong = file;
      wrong[at] = static_cast<char>(wrong[at] ^ (1 << random() % 8));
      const Result found = inflate(format, wrong, {1 << 19, 500});
      CHECK_EQ_IN(found.is_done && found.bytes != bytes, false, at);
    }
  }
}

void test_faults() {
  const std::string file = deflated("some bytes", Format::gzip);
  const auto changed = [&file](std::size_t at, char value) {
    std::string wrong = file;
    wrong[at] = value;
    return wrong;
  };
  CHECK_EQ(inflate(Format::gzip, changed(0, 'x')).reason, "the header is invalid");
  CHECK_EQ(inflate(Format::gzip, changed(2, 7)).reason, "the compression method is unknown");
  CHECK_EQ(inflate(Format::gzip, changed(file.size() - 5, 'x')).reason, "the checksum is wrong");
  CHECK_EQ(inflate(Format::gzip, changed(file.size() - 1, 'x')).reason, "the checksum is wrong");
  CHECK_EQ(inflate(Format::deflate, "\x07").reason, "a block is invalid");
  CHECK_EQ(inflate(Format::zlib, raw({0x78, 0xbb, 0, 0, 0, 1})).reason, "it needs a dictionary");
  CHECK_EQ(inflate(Format::zlib, raw({0x78, 0x9d})).reason, "the checksum is wrong");
}

void test_a_stream_that_has_ended_stays_so() {
  const std::vector<std::byte> file = exact(deflated("some bytes", Format::gzip) + "more");
  std::vector<std::byte> out(100);
  Inflated step;
  std::string reason;
  InflateStream stream(Format::gzip);
  CHECK(stream.decode({}, out, step, reason));
  CHECK_EQ(step.consumed + step.produced, 0U);
  CHECK(stream.decode(file, {}, step, reason));
  CHECK_EQ(step.produced, 0U);
  CHECK(stream.decode(Bytes(file).subspan(step.consumed), out, step, reason));
  CHECK_EQ(step.produced, 10U);
  CHECK(stream.is_done());
  CHECK(stream.decode(file, out, step, reason));
  CHECK_EQ(step.consumed + step.produced, 0U);

  InflateStream damaged(Format::deflate);
  const std::vector<std::byte> wrong = exact("\x07");
  for (int i = 0; i < 2; ++i) {
    reason.clear();
    CHECK(!damaged.decode(wrong, out, step, reason));
    CHECK_EQ(reason, "a block is invalid");
    CHECK(!damaged.is_done());
  }
}

}  // namespace
}  // namespace tio::test

int main() {
  tio::test::test_pieces_of_any_size();
  tio::test::test_starts_at_any_bit();
  tio::test::test_windows();
  tio::test::test_truncated_streams_are_not_done();
  tio::test::test_damage_is_found();
  tio::test::test_faults();
  tio::test::test_a_stream_that_has_ended_stays_so();
  return tio::test::finish();
}
