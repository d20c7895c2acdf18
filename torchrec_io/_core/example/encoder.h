// Serializes tf.train.Example and tf.train.SequenceExample. The bytes are those of protobuf's
// deterministic serializers: map entries sorted by the bytes of their keys, each with its key and
// its value, and packed numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "example/feature.h"
#include "wire/bytes.h"

namespace tio {

// The values of one Feature: a run of the message's values of its kind.
struct ValueRun {
  Kind kind = Kind::none;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A map entry: a key and a range of the message's Features. The range has exactly one Feature in
// the context, and one for each step in a sequence.
struct MapEntry {
  Bytes key;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A map of the message. A map that is present is written even if it has no entries.
struct MessagePart {
  bool is_present = false;
  std::vector<MapEntry> entries;
};

// The content of a message. An Example is a SequenceExample without `sequence`: both store their
// Features in the same field. Keys and bytes are views, which must outlive the message.
struct Message {
  MessagePart context;
  MessagePart sequence;
  std::vector<ValueRun> features;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<Bytes> bytes;

  // Removes the content but keeps the memory, for the next message.
  void clear();
};

class MessageEncoder {
 public:
  // Sorts the entries of `message` by key. Returns a key that a part has twice, if there is one.
  std::optional<Bytes> sort(Message& message);

  // Returns the size of the serialized message, or nothing if it exceeds the limit of protobuf
  // (2^31 - 1).
  std::optional<std::size_t> measure(const Message& message);

  // Writes the message that was measured last, and not changed since, to `out`, which has that
  // size.
  void write(const Message& message, MutableBytes out) const;

 private:
  struct SortKey {
    std::uint64_t prefix = 0;
    std::size_t entry = 0;
  };

  std::optional<Bytes> sort_part(MessagePart& part);
  bool measure_feature(const Message& message, const ValueRun& run);
  // Adds the size of a part to `total`.
  bool measure_part(const Message& message, const MessagePart& part, bool has_steps,
                    std::uint64_t& total);

  std::vector<SortKey> sort_keys_;
  std::vector<MapEntry> sorted_;
  // Payload sizes of each Feature's list: packed numbers, or bytes values with their headers.
  std::vector<std::uint64_t> payloads_;
  // Sizes of the values of all map entries, first of the context, then of the sequence; and of both
  // maps.
  std::vector<std::uint64_t> values_;
  std::uint64_t parts_[2] = {0, 0};
};

// Rounds `value` to the nearest float32. Returns false if `value` is finite and the result is not.
inline bool narrow_float(double value, float& out) {
  // Half a step above the largest float32. Numbers from here on round to infinity.
  constexpr double kEnd = 0x1.ffffffp127;
  if (value >= kEnd || value <= -kEnd) {
    if (value - value == 0) return false;  // finite
    out = value > 0 ? __builtin_inff() : -__builtin_inff();
    return true;
  }
  out = static_cast<float>(value);  // NaN stays NaN
  return true;
}

}  // namespace tio
