// The one way this core reads bytes that came from outside: every step checks what is left.
#pragma once

#include <cstdint>
#include <optional>

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

  // Up to 10 bytes; bits past 64 are dropped, as protobuf and TensorFlow do.
  bool read_varint(std::uint64_t& out) { return read_varint_of(10, out); }

  // A field number and wire type. Protobuf: at most 5 bytes and 32 bits, and no field 0.
  bool read_tag(std::uint32_t& out) {
    std::uint64_t value = 0;
    if (!read_varint_of(5, value) || value > 0xffffffffU || (value >> 3) == 0) return false;
    out = static_cast<std::uint32_t>(value);
    return true;
  }

  // A length and the bytes it announces. Protobuf: at most 5 bytes of length.
  bool read_delimited(Bytes& out) {
    std::uint64_t size = 0;
    return read_varint_of(5, size) && read_bytes(size, out);
  }

 private:
  bool read_varint_of(unsigned most, std::uint64_t& out) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < most; ++i) {
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
