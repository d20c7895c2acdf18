// Decompression of gzip members, zlib streams and DEFLATE streams by ISA-L, in pieces of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "wire/bytes.h"

namespace tio {

// Number of bytes that a call took from its input and wrote to its output.
struct Inflated {
  std::size_t consumed = 0;
  std::size_t produced = 0;
};

// One member or stream. Its memory has a fixed size. Not safe to use from two threads at the same
// time.
class InflateStream {
 public:
  // DEFLATE has no header and no checksum.
  enum class Format : std::uint8_t { deflate, gzip, zlib };

  static constexpr std::size_t kWindowBytes = 1 << 15;

  // Starts before the header.
  explicit InflateStream(Format format);

  // Starts inside a DEFLATE stream: at a bit of a byte, from 0 to 7, after a window of up to
  // `kWindowBytes`. The next input is that byte if the bit is 0, else the byte after it.
  InflateStream(Bytes window, int bit, std::byte first);

  ~InflateStream();
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  // Decompresses until the output is full, the input does not suffice, or the stream ends. Input
  // that was not consumed must precede the next input. Returns false with a reason if the stream is
  // damaged; it cannot be continued then, and the content of the output is undefined.
  bool decode(Bytes in, MutableBytes out, Inflated& progress, std::string& reason);

  // Whether the stream has ended, and its checksum is right.
  bool is_done() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tio
