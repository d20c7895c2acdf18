// The bounds-checked reader for all bytes that come from outside the process.
#pragma once

#include <cstdint>

#include "wire/bytes.h"

namespace tio {

class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }
  std::size_t remaining() const { return bytes_.size() - at_; }
  bool done() const { return at_ == bytes_.size(); }

  bool skip(std::uint64_t count) {
    if (count > remaining()) return false;
    at_ += count;
    return true;
  }

  bool read_bytes(std::uint64_t count, Bytes& out) {
    if (count > remaining()) return false;
    out = bytes_.subspan(at_, count);
    at_ += count;
    return true;
  }

  template <class T>
  bool read(T& out) {
    if (sizeof(T) > remaining()) return false;
    out = load<T>(bytes_, at_);
    at_ += sizeof(T);
    return true;
  }

  // Reads a varint of up to 10 bytes. Bits past 64 are dropped, as in protobuf and TensorFlow.
  bool read_varint(std::uint64_t& out) { return read_varint_up_to(10, out); }

  // Reads a field number and wire type. Protobuf allows at most 5 bytes and 32 bits, and no
  // field 0.
  bool read_tag(std::uint32_t& out) {
    std::uint64_t value = 0;
    if (!read_varint_up_to(5, value) || value > 0xffffffffU || (value >> 3) == 0) return false;
    out = static_cast<std::uint32_t>(value);
    return true;
  }

  // Reads a length and that many bytes. Protobuf allows at most 5 bytes for the length.
  bool read_delimited(Bytes& out) {
    std::uint64_t size = 0;
    return read_varint_up_to(5, size) && read_bytes(size, out);
  }

 private:
  bool read_varint_up_to(unsigned max_bytes, std::uint64_t& out) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < max_bytes; ++i) {
      if (at_ == bytes_.size()) return false;
      const auto byte = load<std::uint8_t>(bytes_, at_++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        out = value;
        return true;
      }
    }
    return false;
  }

  Bytes bytes_;
  std::size_t at_ = 0;
};

}  // namespace tio
