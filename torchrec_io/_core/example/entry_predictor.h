// Predicts a map entry's whole header from the one that stood at the same place in the record
// before.
//
// Writers put the same keys in the same order, so the bytes before an entry's values differ between
// records in its lengths only, and those all follow from the entry's own:
//
//   0a L | 0a K key | 12 L-K-4 | kind L-K-6 | 0a L-K-8 | values
//
// With one-byte lengths, one vector comparison of these bytes against (constant + L at the places
// of the lengths) proves the entry well-formed and of the key foreseen. Long entries compare
// exactly.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "wire/bytes.h"
#include "example/feature.h"

namespace tio {

class EntryTemplate {
 public:
  // Learns from an entry whose Feature holds one list of one chunk. `entry_tag` is where the
  // entry's tag stands, `values` where its values start, `end` where they and the entry end.
  // Entries that are not spelled in the way above are left unlearned.
  void learn(Bytes record, std::size_t entry_tag, std::size_t values, std::size_t end,
             std::size_t key_bytes, int slot, Kind kind) {
    chunks_ = 0;
    const std::size_t header = values - entry_tag;
    const std::size_t payload = end - values;
    if (header > kMostHeader) return;
    relative_ = is_plain(record.subspan(entry_tag, header), key_bytes, payload);
    // The exact sizes of a long entry are worth learning only once they have come twice in a row.
    const bool repeats = payload == payload_;
    payload_ = payload;
    if (!relative_ && !repeats) return;
    // A header of another size has lengths of several bytes, or is spelled overlong: exact match
    // only.
    header_ = static_cast<std::uint32_t>(header);
    slot_ = slot;
    kind_ = kind;
    for (std::size_t i = 0; i < kMostHeader; ++i) {
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

  // If the entry at `at` is spelled as foreseen and ends by `limit`, gives where its values lie.
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
      // The comparison is modulo 256: a length that wrapped around is no match.
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
  static constexpr std::size_t kMostHeader = 64;
  // GCC and Clang vectors: one add or compare on every processor with 128-bit registers.
  using Vector = std::uint8_t __attribute__((vector_size(kChunk)));
  using Vectors = std::array<Vector, kMostHeader / kChunk>;

  // Whether a header is the one above, with lengths of a byte each. Its size alone does not say so:
  // an entry without a key may have the bytes of one to spare in an overlong length.
  static bool is_plain(Bytes header, std::size_t key_bytes, std::size_t payload) {
    const std::size_t length = payload + header.size() - 2;
    if (header.size() != key_bytes + 10 || length >= 0x80) return false;
    const auto says = [header](std::size_t at, std::size_t number) {
      return load<std::uint8_t>(header, at) == number;
    };
    return says(1, length) && says(5 + key_bytes, length - key_bytes - 4) &&
           says(7 + key_bytes, length - key_bytes - 6) && says(9 + key_bytes, payload);
  }

  static void set(Vectors& vectors, std::size_t i, std::uint8_t byte) {
    vectors[i / kChunk][i % kChunk] = byte;
  }
  // By a product: GCC would take a single byte through memory, and wait for it there.
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

  // Where the record ends within the last chunk: what is not there is ignored anyway.
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
  std::uint32_t chunks_ = 0;  // 0: nothing learned
  int slot_ = -1;
  Kind kind_ = Kind::none;
  bool relative_ = false;
};

}  // namespace tio
