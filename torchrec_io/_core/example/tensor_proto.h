// Decodes a serialized tensorflow.TensorProto, as tf.io.serialize_tensor writes it and
// tf.io.parse_tensor reads it, in two passes: the first reads the header and measures, the second
// fills.
//
// The bytes are read as protobuf reads them. Fields may come in any order, and unknown ones are
// skipped. If a number or content is stored several times, the last one counts; lists and shapes
// are concatenated. Invalid bytes are rejected. An int32 or uint32 keeps the low 32 bits of its
// varint. A bool is true for any number except 0.
//
// The fields have the same meaning as in TensorFlow. A tensor_content that is not empty has
// priority over the typed lists. A typed list that is too short repeats its last value. Without any
// value, all elements are 0 or b"". unknown_rank is ignored: the listed dimensions count, and no
// dimensions make a scalar.
//
// Stricter than TensorFlow 2.21, which would lose or invent data:
//  - More values than the shape has room for, also if a dimension is 0 (TensorFlow drops them).
//  - No values in the list of the dtype, but some in the list of another (it returns zeros).
//  - Numbers outside the range of int8, uint8, int16 or uint16, and bits of a float16 or bfloat16
//    outside the range of uint16 (it wraps them around).
//  - Half of a complex number (it drops it).
//  - Dimensions whose product overflows if zeros are ignored (its result depends on their order,
//  and
//    NumPy rejects the tensor).
//  - Sizes of strings in tensor_content that need more than 32 bits (it drops the upper bits).
//  - A tensor much larger than its message, which can claim any shape in a few bytes and leave all
//    values to be filled in. See kFreeTensorBytes.
// Quantized, float8 and narrower dtypes, resources and variants are not supported.
//
// More lenient: names of dimensions, resource handles and variants are skipped. Damage inside them
// and text that is not UTF-8 are not detected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/bytes.h"

namespace tio {

// The numbers are those of tensorflow.DataType.
enum class TensorType : std::uint8_t {
  float32 = 1,
  float64 = 2,
  int32 = 3,
  uint8 = 4,
  int16 = 5,
  int8 = 6,
  string = 7,
  complex64 = 8,
  int64 = 9,
  boolean = 10,
  bfloat16 = 14,
  uint16 = 17,
  complex128 = 18,
  float16 = 19,
  uint32 = 22,
  uint64 = 23
};

// Returns the size of an element in bytes; 0 for strings.
std::size_t tensor_element_bytes(TensorType type);

// The maximum size of a tensor (for strings: data and offsets): kFreeTensorBytes, or
// kTensorBytesPerByte for each byte of its message if that is more. A tensor whose values are all
// stored never exceeds it: an int64 takes at least one byte of the message, and so does a string,
// which has an offset.
constexpr std::uint64_t kFreeTensorBytes = 1 << 16;
constexpr std::uint64_t kTensorBytesPerByte = 64;

// The limit of TensorFlow's TensorShape.
constexpr std::size_t kMaxTensorDims = 254;

struct TensorHeader {
  TensorType type = TensorType::float32;
  std::vector<std::int64_t> dims;
  std::uint64_t count = 0;  // elements
  std::uint64_t bytes = 0;  // total size of the elements; for strings, of the joined values
};

// First pass: checks everything except the range of each value. Returns false, with a reason, if
// `message` is not a tensor of the expected type.
bool parse_tensor_header(Bytes message, TensorType expected, TensorHeader& out,
                         std::string& reason);

// Second pass for numbers: writes the elements to `out`, which has `header.bytes` bytes, in
// little-endian order. If the message has changed since the first pass, it may be rejected or give
// any elements, but nothing is written outside of `out`. If this returns false, the content of
// `out` is undefined.
bool fill_tensor(Bytes message, const TensorHeader& header, MutableBytes out, std::string& reason);

// Second pass for strings: writes the joined values to `data`, and to `offsets` int64 [count + 1],
// the bounds of each value in `data`.
bool fill_string_tensor(Bytes message, const TensorHeader& header, MutableBytes offsets,
                        MutableBytes data, std::string& reason);

}  // namespace tio
