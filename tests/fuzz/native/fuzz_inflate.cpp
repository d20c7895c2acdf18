// Decompresses streams in pieces, compared with one piece and with libdeflate.
//
// ISA-L accepts Huffman codes that leave some codes unused, which libdeflate refuses. It refuses
// symbols that stand for nothing, which libdeflate accepts. No encoder writes either, and checksums
// guard the bytes.
//
// Input: format and bit, sizes of the pieces of input and output (1 byte each), the stream.
#include <libdeflate.h>

#include <algorithm>
#include <string>
#include <vector>

#include "inflate/stream.h"
#include "require.h"

namespace tio::fuzz {
namespace {

using Format = InflateStream::Format;

constexpr std::size_t kOptionBytes = 3;
constexpr std::size_t kMostBytes = 1 << 16;  // of the output
constexpr std::size_t kGuardBytes = 512;
constexpr std::byte kGuard{0xa5};

struct Result {
  std::string bytes;
  std::size_t consumed = 0;
  bool is_good = true;
  bool is_done = false;
  bool is_cut = false;  // the output was larger than is compared
};

// Decodes a stream as far as possible, and checks that nothing is written after the output.
Result inflate(InflateStream& stream, Bytes file, std::size_t in, std::size_t out) {
  Result result;
  std::vector<std::byte> memory(out + kGuardBytes, kGuard);
  std::size_t given = std::min(file.size(), in);
  while (!stream.is_done() && !result.is_cut) {
    // The input ends where its memory does.
    const std::vector<std::byte> input(file.begin() + static_cast<std::ptrdiff_t>(result.consumed),
                                       file.begin() + static_cast<std::ptrdiff_t>(given));
    const MutableBytes target = MutableBytes(memory).first(out);
    Inflated step;
    std::string reason;
    result.is_good = stream.decode(input, target, step, reason);
    require(result.is_good == reason.empty(), "a reason without a fault, or the reverse");
    require(std::all_of(memory.end() - kGuardBytes, memory.end(),
                        [](std::byte byte) { return byte == kGuard; }),
            "bytes after the output were changed");
    if (!result.is_good) break;
    require(step.consumed <= input.size() && step.produced <= out, "impossible sizes");
    result.consumed += step.consumed;
    result.bytes.append(reinterpret_cast<const char*>(memory.data()), step.produced);
    result.is_cut = result.bytes.size() > kMostBytes;
    if (step.produced != 0 || stream.is_done()) continue;
    if (given == file.size()) break;
    given = std::min(file.size(), given + in);
  }
  result.is_done = stream.is_done();
  return result;
}

// Decodes a stream by libdeflate; nothing if it is damaged, cut or too large.
Result inflate_by_libdeflate(Format format, Bytes file) {
  static libdeflate_decompressor* const decompressor = libdeflate_alloc_decompressor();
  Result result;
  std::size_t size = 0;
  result.bytes.resize(kMostBytes);
  const auto decompress = format == Format::gzip   ? libdeflate_gzip_decompress_ex
                          : format == Format::zlib ? libdeflate_zlib_decompress_ex
                                                   : libdeflate_deflate_decompress_ex;
  result.is_done = decompress(decompressor, file.data(), file.size(), result.bytes.data(),
                              result.bytes.size(), &result.consumed, &size) == LIBDEFLATE_SUCCESS;
  result.bytes.resize(result.is_done ? size : 0);
  return result;
}

// Starts inside a byte, with a window; only memory errors are found.
void check_inside(Bytes file, int bit, std::size_t in, std::size_t out) {
  if (file.empty()) return;
  InflateStream stream(file, bit, file[0]);
  inflate(stream, file.subspan(bit == 0 ? 0 : 1), in, out);
}

void check(const std::uint8_t* data, std::size_t size) {
  if (size < kOptionBytes) return;
  const auto format = static_cast<Format>((data[0] & 15) % 3);
  const std::size_t in = 1 + data[1] * data[1];
  const std::size_t out = 1 + data[2] * data[2];
  const Bytes file = std::as_bytes(std::span(data + kOptionBytes, size - kOptionBytes));
  check_inside(file, data[0] >> 5, in, out);
  InflateStream first(format);
  const Result whole = inflate(first, file, file.size(), kMostBytes + 1);
  InflateStream second(format);
  const Result pieces = inflate(second, file, in, out);
  if (whole.is_done && !whole.is_cut) {
    require(pieces.is_done && pieces.bytes == whole.bytes, "other bytes in pieces");
    require(pieces.consumed == whole.consumed, "another end in pieces");
  }
  const Result wanted = inflate_by_libdeflate(format, file);
  if (!wanted.is_done || !whole.is_good) return;
  require(whole.is_done && whole.bytes == wanted.bytes, "other bytes than those of libdeflate");
  require(whole.consumed == wanted.consumed, "another end than that of libdeflate");
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(data, size);
  return 0;
}
