// Builds protobuf messages by hand, valid or not, for tests to parse.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "example/feature.h"
#include "wire/bytes.h"
#include "wire/field.h"

namespace tio::test {

// Returns a copy that ends where its memory ends, so that a sanitizer detects every read past it.
inline std::vector<std::byte> exact(const std::string& bytes) {
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

// Bytes written as numbers: raw({0x0a, 0x00}).
inline std::string raw(std::initializer_list<int> bytes) {
  std::string out;
  for (const int byte : bytes) out.push_back(static_cast<char>(byte));
  return out;
}

template <class T>
std::string little_endian(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// `size` is the number of bytes of an overlong encoding; 0 is the shortest encoding.
inline std::string varint(std::uint64_t value, std::size_t size = 0) {
  std::string out;
  while (value >= 0x80 || out.size() + 1 < size) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
  return out;
}

inline std::string field_tag(std::uint32_t field, wire::Type type, std::size_t size = 0) {
  return varint(field << 3 | type, size);
}

inline std::string delimited(std::uint32_t field, const std::string& payload) {
  return field_tag(field, wire::delimited) + varint(payload.size()) + payload;
}

inline std::string varint_field(std::uint32_t field, std::uint64_t value) {
  return field_tag(field, wire::varint) + varint(value);
}

inline std::string group(std::uint32_t field, const std::string& content) {
  return field_tag(field, wire::group) + content + field_tag(field, wire::end_group);
}

// Returns `depth` nested groups.
inline std::string nested_groups(int depth) {
  std::string out;
  for (int i = 0; i < depth; ++i) out = group(15, out);
  return out;
}

// ---- lists ----

inline std::string joined_varints(const std::vector<std::int64_t>& values) {
  std::string out;
  for (const auto value : values) out += varint(static_cast<std::uint64_t>(value));
  return out;
}

inline std::string packed_ints(const std::vector<std::int64_t>& values) {
  return delimited(1, joined_varints(values));
}

inline std::string unpacked_ints(const std::vector<std::int64_t>& values) {
  std::string out;
  for (const auto value : values) out += varint_field(1, static_cast<std::uint64_t>(value));
  return out;
}

inline std::string packed_floats(const std::vector<float>& values) {
  std::string out;
  for (const auto value : values) out += little_endian(value);
  return delimited(1, out);
}

inline std::string unpacked_floats(const std::vector<float>& values) {
  std::string out;
  for (const auto value : values) out += field_tag(1, wire::fixed32) + little_endian(value);
  return out;
}

inline std::string bytes_values(const std::vector<std::string>& values) {
  std::string out;
  for (const auto& value : values) out += delimited(1, value);
  return out;
}

// ---- messages around them ----

// A list in a Feature.
inline std::string feature(Kind kind, const std::string& list) {
  return delimited(static_cast<std::uint32_t>(kind), list);
}

// A field of Features: key and Feature.
inline std::string entry(const std::string& key, const std::string& feature) {
  return delimited(1, delimited(1, key) + delimited(2, feature));
}

inline std::string ints_entry(const std::string& key, const std::vector<std::int64_t>& values) {
  return entry(key, feature(Kind::ints, packed_ints(values)));
}

inline std::string floats_entry(const std::string& key, const std::vector<float>& values) {
  return entry(key, feature(Kind::floats, packed_floats(values)));
}

inline std::string bytes_entry(const std::string& key, const std::vector<std::string>& values) {
  return entry(key, feature(Kind::bytes, bytes_values(values)));
}

// An Example of the fields of Features.
inline std::string example(const std::string& entries) { return delimited(1, entries); }

// The steps of a FeatureList, each a Feature.
inline std::string steps(const std::vector<std::string>& features) {
  std::string out;
  for (const auto& feature : features) out += delimited(1, feature);
  return out;
}

// A field of FeatureLists: key and FeatureList.
inline std::string list_entry(const std::string& key, const std::vector<std::string>& features) {
  return entry(key, steps(features));
}

// A SequenceExample of the fields of its Features and of its FeatureLists.
inline std::string sequence(const std::string& context, const std::string& lists) {
  return delimited(1, context) + delimited(2, lists);
}

}  // namespace tio::test
