// Predicts the header of a map entry from the entry at the same position in the previous record.
//
// Writers store the same keys in the same order. So the bytes before the values of an entry differ
// between records only in their lengths, and those follow from the length L of the entry and the
// size K of the key:
//
//   entry L | key K .. | value L-K-4 | kind L-K-6 | list L-K-8 | values
//
// If each tag and length is one byte, one vector comparison of these bytes with a constant, to
// which L is added at the positions of the lengths, proves that the entry is valid and has the
// predicted key. The headers of longer entries are compared exactly, lengths included.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "example/feature.h"
#include "wire/bytes.h"

namespace tio {

class EntryPredictor {
 public:
  // Learns from an entry whose Feature has one list of one chunk. `entry_tag` is the offset of the
  // entry's tag, `values` the offset of its values, `end` the end of both. `slot` is -1 if the
  // entry is not read. Entries in another encoding than the one above make no prediction.
  void learn(Bytes record, std::size_t entry_tag, std::size_t values, std::size_t end,
             std::size_t key_bytes, int slot, Kind kind) {
    chunks_ = 0;
    const std::size_t header = values - entry_tag;
    const std::size_t payload = end - values;
    if (header > kMaxHeader) return;
    relative_ = is_plain(record.subspan(entry_tag, header), key_bytes, payload);
    // The exact sizes of a long entry are learned only if they repeat.
    const bool repeats = payload == payload_;
    payload_ = payload;
    if (!relative_ && !repeats) return;
    header_ = static_cast<std::uint32_t>(header);
    slot_ = slot;
    kind_ = kind;
    for (std::size_t i = 0; i < kMaxHeader; ++i) {
      set(expected_, i, i < header ? load<std::uint8_t>(record, entry_tag + i) : 0);
      set(ignored_, i, i < header ? 0x00 : 0xff);
      set(is_length_, i, 0);
    }
    if (relative_) {
      const auto length = static_cast<std::uint8_t>(payload + header - 2);
      for (const std::size_t i : {std::size_t{1}, 5 + key_bytes, 7 + key_bytes, 9 + key_bytes}) {
        set(is_length_, i, 0xff);
        set(expected_, i,
            static_cast<std::uint8_t>(load<std::uint8_t>(record, entry_tag + i) - length));
      }
    }
    chunks_ = static_cast<std::uint32_t>((header + kChunk - 1) / kChunk);
  }

  // Returns whether the entry at offset `at` is encoded as predicted and ends by `limit`. If so,
  // sets the offset and the end of its values.
  bool match(Bytes record, std::size_t at, std::size_t limit, std::size_t& values,
             std::size_t& end) const {
    if (chunks_ == 0 || limit - at < header_) return false;
    const auto length = load<std::uint8_t>(record, at + 1);
    if (record.size() - at >= chunks_ * kChunk) {
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        if (differs(load<Vector>(record, at + chunk * kChunk), chunk, length)) return false;
      }
    } else if (!match_tail(record.subspan(at), length)) {
      return false;
    }
    std::size_t payload = payload_;
    if (relative_) {
      // The comparison is modulo 256, so a length that wrapped around must be rejected here.
      if (length >= 0x80 || length + 2U < header_) return false;
      payload = length + 2U - header_;
    }
    if (limit - at - header_ < payload) return false;
    values = at + header_;
    end = values + payload;
    return true;
  }

  int slot() const { return slot_; }
  Kind kind() const { return kind_; }

 private:
  static constexpr std::size_t kChunk = 16;
  static constexpr std::size_t kMaxHeader = 64;
  // A vector type of GCC and Clang: one instruction adds or compares it on every processor with
  // 128-bit registers.
  using Vector = std::uint8_t __attribute__((vector_size(kChunk)));
  using Vectors = std::array<Vector, kMaxHeader / kChunk>;

  // Returns whether a header is the one above, with one-byte lengths. Its size alone does not prove
  // that: in an entry without a key, an overlong length may take the bytes of one.
  static bool is_plain(Bytes header, std::size_t key_bytes, std::size_t payload) {
    const std::size_t length = payload + header.size() - 2;
    if (header.size() != key_bytes + 10 || length >= 0x80) return false;
    const auto has = [header](std::size_t at, std::size_t number) {
      return load<std::uint8_t>(header, at) == number;
    };
    return has(1, length) && has(5 + key_bytes, length - key_bytes - 4) &&
           has(7 + key_bytes, length - key_bytes - 6) && has(9 + key_bytes, payload);
  }

  static void set(Vectors& vectors, std::size_t i, std::uint8_t byte) {
    vectors[i / kChunk][i % kChunk] = byte;
  }
  // A product, because GCC would store a single byte to memory and wait to load it again.
  static Vector splat(std::uint8_t byte) {
    const std::uint64_t half = byte * 0x0101010101010101U;
    const std::uint64_t halves[2] = {half, half};
    return std::bit_cast<Vector>(halves);
  }
  static bool any(Vector vector) {
    std::uint64_t halves[2];
    std::memcpy(halves, &vector, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
  }

  bool differs(Vector seen, std::size_t chunk, std::uint8_t length) const {
    const Vector wanted = expected_[chunk] + (splat(length) & is_length_[chunk]);
    return any((seen ^ wanted) & ~ignored_[chunk]);
  }

  // For a record that ends within the last chunk. The comparison ignores the missing bytes.
  bool match_tail(Bytes rest, std::uint8_t length) const {
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      const std::size_t at = chunk * kChunk;
      Vector seen{};
      std::memcpy(&seen, rest.data() + at, std::min(kChunk, rest.size() - at));
      if (differs(seen, chunk, length)) return false;
    }
    return true;
  }

  Vectors expected_{};
  Vectors is_length_{};
  Vectors ignored_{};
  std::size_t payload_ = 0;
  std::uint32_t header_ = 0;
  std::uint32_t chunks_ = 0;  // 0: no prediction
  int slot_ = -1;
  Kind kind_ = Kind::none;
  bool relative_ = false;
};

}  // namespace tio
