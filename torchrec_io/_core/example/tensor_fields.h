// The encoding of tensorflow.TensorProto: which list holds the values of a dtype, and how.
#pragma once

#include <cstdint>

#include "example/fields.h"
#include "example/tensor_proto.h"
#include "wire/bytes.h"
#include "wire/cursor.h"
#include "wire/field.h"

namespace tio::tensor_detail {

struct TypeTraits {
  std::size_t bytes;    // of an element; 0 for strings
  std::uint32_t list;   // field number of the list of its values; 0 if there is no such type
  std::uint32_t parts;  // entries of the list per element
};

constexpr TypeTraits traits_of(TensorType type) {
  switch (type) {
    case TensorType::float32: return {4, fields::kFloatValField, 1};
    case TensorType::float64: return {8, fields::kDoubleValField, 1};
    case TensorType::int32: return {4, fields::kIntValField, 1};
    case TensorType::uint8: return {1, fields::kIntValField, 1};
    case TensorType::int16: return {2, fields::kIntValField, 1};
    case TensorType::int8: return {1, fields::kIntValField, 1};
    case TensorType::string: return {0, fields::kStringValField, 1};
    case TensorType::complex64: return {8, fields::kScomplexValField, 2};
    case TensorType::int64: return {8, fields::kInt64ValField, 1};
    case TensorType::boolean: return {1, fields::kBoolValField, 1};
    case TensorType::bfloat16: return {2, fields::kHalfValField, 1};
    case TensorType::uint16: return {2, fields::kIntValField, 1};
    case TensorType::complex128: return {16, fields::kDcomplexValField, 2};
    case TensorType::float16: return {2, fields::kHalfValField, 1};
    case TensorType::uint32: return {4, fields::kUint32ValField, 1};
    case TensorType::uint64: return {8, fields::kUint64ValField, 1};
  }
  return {};
}

// Sets the wire type of a single entry of a list. Returns false if the field is not a list.
constexpr bool find_entry_type(std::uint32_t field, wire::Type& type) {
  switch (field) {
    case fields::kFloatValField:
    case fields::kScomplexValField: type = wire::fixed32; return true;
    case fields::kDoubleValField:
    case fields::kDcomplexValField: type = wire::fixed64; return true;
    case fields::kStringValField: type = wire::delimited; return true;
    case fields::kIntValField:
    case fields::kInt64ValField:
    case fields::kBoolValField:
    case fields::kHalfValField:
    case fields::kUint32ValField:
    case fields::kUint64ValField: type = wire::varint; return true;
    default: return false;
  }
}

// Calls `visit(tag, payload)` for each field of a message except groups. The payload is the bytes
// of a number, or the content of a field with a length. Stops when `visit` returns false.
template <class Visit>
bool walk_fields(Bytes message, Visit&& visit) {
  return wire::walk_tags(message, [&](std::uint32_t tag, Cursor& cursor) {
    Bytes payload;
    if ((tag & 7) == wire::delimited) return cursor.read_delimited(payload) && visit(tag, payload);
    const std::size_t from = cursor.position();
    if (!wire::skip_field(cursor, tag)) return false;
    return (tag & 7) == wire::group || visit(tag, message.subspan(from, cursor.position() - from));
  });
}

// Returns whether a field has entries of the list `field`: a single one or a packed run.
inline bool is_in_list(std::uint32_t tag, std::uint32_t field, wire::Type type) {
  return tag >> 3 == field && ((tag & 7) == type || (tag & 7) == wire::delimited);
}

// Reads the size of one string in tensor_content, a varint of at most 5 bytes.
inline bool read_string_size(Cursor& cursor, std::uint64_t& out) {
  const std::size_t from = cursor.position();
  return cursor.read_varint(out) && cursor.position() - from <= 5;
}

}  // namespace tio::tensor_detail
