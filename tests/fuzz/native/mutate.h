// Mutations of protobuf messages: they change a field inside nested messages and update the lengths
// around it, so that damage reaches the inner layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "encode.h"
#include "reference.h"
#include "wire/bytes.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tio::fuzz {

struct Field {
  std::string tag;  // as encoded
  bool delimited = false;
  std::size_t length_bytes = 0;               // size of the encoded length; 0 is the shortest
  std::optional<std::uint64_t> false_length;  // written instead of the size of the payload
  std::string payload;

  std::string bytes() const {
    if (!delimited) return tag + payload;
    return tag + test::varint(false_length.value_or(payload.size()), length_bytes) + payload;
  }
};

// Splits a message into fields, or returns nothing if it is not one. The start and the end of a
// group count as fields.
inline std::optional<std::vector<Field>> split(const std::string& message) {
  const Bytes bytes = std::as_bytes(std::span(message));
  std::vector<Field> fields;
  std::size_t at = 0;
  while (at < bytes.size()) {
    Field field;
    const std::size_t tag_at = at;
    const auto tag = test::reference_varint(bytes, at);
    if (!tag) return std::nullopt;
    field.tag = message.substr(tag_at, at - tag_at);
    const std::size_t payload_at = at;
    std::size_t size = 0;
    switch (*tag & 7) {
      case 0:
        if (!test::reference_varint(bytes, at)) return std::nullopt;
        size = at - payload_at;
        at = payload_at;
        break;
      case 1: size = 8; break;
      case 2: {
        const auto length = test::reference_varint(bytes, at);
        if (!length || *length > bytes.size() - at) return std::nullopt;
        field.delimited = true;
        field.length_bytes = at - payload_at;
        size = *length;
        break;
      }
      case 5: size = 4; break;
      default: break;
    }
    if (size > bytes.size() - at) return std::nullopt;
    field.payload = message.substr(at, size);
    at += size;
    fields.push_back(std::move(field));
  }
  return fields;
}

class WireMutator {
 public:
  explicit WireMutator(unsigned seed) : random_(seed) {}

  std::string mutate(const std::string& message, std::size_t max_size, int depth = 0) {
    auto fields = split(message);
    if (!fields || fields->empty() || depth == kDeepest || below(12) == 0) {
      return mutate_bytes(message, max_size);
    }
    Field& field = (*fields)[below(fields->size())];
    if (field.delimited && below(4) != 0) {
      field.payload = mutate(field.payload, max_size, depth + 1);
      // Most lengths keep the size of their encoding. Let some shrink again.
      if (below(4) != 0) field.length_bytes = 0;
    } else {
      change(*fields, field);
    }
    return join(*fields);
  }

  // Inserts a field of `other` into `message`, at a level that both have.
  std::string cross(const std::string& message, const std::string& other, int depth = 0) {
    auto fields = split(message);
    const auto others = split(other);
    if (!fields || !others || others->empty()) return message;
    const Field& given = (*others)[below(others->size())];
    if (!fields->empty() && depth < kDeepest && below(3) != 0) {
      Field& field = (*fields)[below(fields->size())];
      if (field.delimited && given.delimited) {
        field.payload = cross(field.payload, given.payload, depth + 1);
        return join(*fields);
      }
    }
    insert(*fields, given);
    return join(*fields);
  }

 private:
  // batch, SequenceExample, FeatureLists, entry, FeatureList, Feature, list, chunk
  static constexpr int kDeepest = 7;

  std::size_t below(std::size_t limit) { return random_() % limit; }

  static std::string join(const std::vector<Field>& fields) {
    std::string message;
    for (const auto& field : fields) message += field.bytes();
    return message;
  }

  static std::string mutate_bytes(const std::string& bytes, std::size_t max_size) {
    std::string out = bytes;
    const std::size_t room = std::max(bytes.size(), std::min(bytes.size() + 64, max_size));
    if (room == 0) return out;
    out.resize(room);
    out.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(out.data()), bytes.size(), room));
    return out;
  }

  void insert(std::vector<Field>& fields, const Field& field) {
    fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(below(fields.size() + 1)), field);
  }

  // Changes or moves `field`, which is one of `fields`.
  void change(std::vector<Field>& fields, Field& field) {
    switch (below(10)) {
      case 0: insert(fields, Field(field)); break;
      case 1: fields.erase(fields.begin() + (&field - fields.data())); break;
      case 2: std::swap(field, fields[below(fields.size())]); break;
      case 3: field.tag = other_tag(); break;
      case 4: field.tag = respell(field.tag); break;
      case 5: field.length_bytes = 1 + below(6); break;
      case 6: field.false_length = field.payload.size() + below(5) - 2; break;
      case 7: insert(fields, unknown_field()); break;
      case 8: field = shifted(field); break;
      default: field.payload = mutate_bytes(field.payload, field.payload.size() + 16); break;
    }
  }

  // Adds one number to the length of a field and to others of its first bytes: to those that depend
  // on the length in an entry or a step as writers encode them, or to any. A predictor could accept
  // it.
  Field shifted(const Field& field) {
    Field out;
    out.payload = field.bytes();
    std::string& bytes = out.payload;
    const bool as_writers = bytes.size() > 3 && below(4) != 0;
    const bool is_step = below(2) == 0;
    const std::size_t key = as_writers && !is_step ? static_cast<unsigned char>(bytes[3]) : 0;
    const auto by = static_cast<char>(below(256));
    for (std::size_t i = 1; i < bytes.size() && i < 10 + key; ++i) {
      const bool follows =
          is_step ? i == 3 || i == 5 : i == 5 + key || i == 7 + key || i == 9 + key;
      if (i == 1 || (as_writers ? follows : below(3) == 0)) {
        bytes[i] = static_cast<char>(bytes[i] + by);
      }
    }
    return out;
  }

  std::string other_tag() {
    static const std::vector<std::string> tags = {
        test::raw({0x0a}), test::raw({0x12}),         test::raw({0x1a}),       test::raw({0x22}),
        test::raw({0x08}), test::raw({0x0d}),         test::raw({0x09}),       test::raw({0x10}),
        test::raw({0x0b}), test::raw({0x0c}),         test::raw({0x1d}),       test::raw({0x02}),
        test::raw({0x0e}), test::varint(0x10000000a), test::varint(0xfffffffa)};
    return tags[below(tags.size())];
  }

  std::string respell(const std::string& tag) {
    std::size_t at = 0;
    const auto value = test::reference_varint(std::as_bytes(std::span(tag)), at);
    return test::varint(value.value_or(10), 1 + below(6));
  }

  Field unknown_field() {
    static const std::vector<std::string> fields = {
        test::varint_field(9, 300),
        test::delimited(9, "unknown"),
        test::field_tag(9, wire::fixed64) + "12345678",
        test::field_tag(1, wire::fixed32) + "1234",
        test::group(9, test::group(1, test::varint_field(1, 1))),
        test::nested_groups(95),
        test::nested_groups(99),
        test::nested_groups(101),
        test::field_tag(9, wire::varint) + std::string(10, '\xff') + '\x01',
        std::string(1, '\0')};
    Field field;
    field.payload = fields[below(fields.size())];
    return field;
  }

  std::minstd_rand random_;
};

}  // namespace tio::fuzz
