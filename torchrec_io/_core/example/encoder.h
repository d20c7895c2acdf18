// Writes tf.train.Example and tf.train.SequenceExample, byte for byte as protobuf's deterministic
// serializers do: map entries sorted by the bytes of their keys, each with its key and its value,
// numbers packed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/bytes.h"
#include "example/feature.h"

namespace tio {

// The values of one Feature: a run among the message's values of its kind.
struct ValueRun {
  Kind kind = Kind::none;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A map entry: a key and a run of the message's Features. Exactly one in the context, one for each
// step in a sequence.
struct MapEntry {
  Bytes key;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A map of the message. One that is present and empty is written, as a part without entries.
struct MessagePart {
  bool present = false;
  std::vector<MapEntry> entries;
};

// What a message is to hold. An Example is a SequenceExample without `sequence`: both have their
// Features in field 1. Keys and bytes are views: they must outlive the writing.
struct Message {
  MessagePart context;
  MessagePart sequence;
  std::vector<ValueRun> features;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<Bytes> bytes;

  // Makes room for another message in the memory of this one.
  void clear();
};

class MessageEncoder {
 public:
  // Sorts the entries of `message`. Returns a key that a part has twice, if there is one.
  std::optional<Bytes> sort(Message& message);

  // Bytes of the message; nothing if they are more than protobuf allows (2^31 - 1).
  std::optional<std::size_t> measure(const Message& message);

  // Writes the message that was measured last, unchanged since, to `out`, which has that size.
  void write(const Message& message, MutableBytes out) const;

 private:
  struct Place {
    std::uint64_t prefix = 0;
    std::size_t entry = 0;
  };

  std::optional<Bytes> sort_part(MessagePart& part);
  bool measure_feature(const Message& message, const ValueRun& run);
  // Adds the bytes of a part to `total`.
  bool measure_part(const Message& message, const MessagePart& part, bool steps,
                    std::uint64_t& total);

  std::vector<Place> places_;
  std::vector<MapEntry> sorted_;
  // Payload of each Feature's list: packed numbers, or bytes values with their headers.
  std::vector<std::uint64_t> payloads_;
  // Value of each map entry, first the context's, then the sequence's, and the maps of both.
  std::vector<std::uint64_t> values_;
  std::uint64_t parts_[2] = {0, 0};
};

// The float32 that is nearest to `value`; false if `value` is finite and that is infinite.
inline bool narrow_float(double value, float& out) {
  constexpr double kEnd = 0x1.ffffffp127;  // half a step over the greatest: from here on infinite
  if (value >= kEnd || value <= -kEnd) {
    if (value - value == 0) return false;  // finite
    out = value > 0 ? __builtin_inff() : -__builtin_inff();
    return true;
  }
  out = static_cast<float>(value);  // NaN stays NaN
  return true;
}

}  // namespace tio
