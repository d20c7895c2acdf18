// Reads one serialized tensorflow.TensorProto, as tf.io.serialize_tensor writes it and
// tf.io.parse_tensor reads it, in two passes: measure, then fill.
//
// The bytes are read as protobuf reads them: fields in any order, unknown ones skipped, the last of
// several numbers or contents counts, lists and shapes are joined, illegal bytes are refused; an
// int32 or uint32 keeps the low 32 bits of its varint, a bool is true for any but 0. What the
// fields then mean is TensorFlow's answer: tensor_content, unless empty, goes before the typed
// lists, which repeat their last value where they are short; without any value all are 0 or b"".
// unknown_rank says nothing: the dimensions that are listed count, and none make a scalar.
//
// Stricter than TensorFlow 2.21, which would lose or make up data:
//  - more values than the shape has room for (it drops them), also where a dimension is 0;
//  - no values in the list of the dtype, but some in that of another (it returns zeros);
//  - numbers outside the range of int8, uint8, int16 or uint16, and bits of a float16 or bfloat16
//    outside that of uint16 (it wraps them around);
//  - half a complex number (it drops it);
//  - dimensions whose product overflows without the zeros among them too (it depends on their
//    order, and NumPy refuses the tensor);
//  - sizes of strings in tensor_content that need over 32 bits (it drops the upper ones);
//  - a tensor much larger than its message: a few bytes can claim any shape and leave all its
//    values to be made up. See kFreeTensorBytes.
// Quantized, float8 and narrower dtypes, resources and variants are not supported.
//
// More lenient: names of dimensions, resource handles and variants are skipped unread, so damage
// inside them and text that is not UTF-8 are not seen.
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

// Bytes of an element; 0 for strings.
std::size_t tensor_element_bytes(TensorType type);

// A tensor may take so many bytes (for strings: data and offsets), or so many for each byte of its
// message if that is more. Values that are all there never take more: an int64 may be one byte of
// the message, and so may a string, with its offset.
constexpr std::uint64_t kFreeTensorBytes = 1 << 16;
constexpr std::uint64_t kTensorBytesPerByte = 64;

// As TensorFlow: TensorShape has no more.
constexpr std::size_t kMostTensorDims = 254;

struct TensorHeader {
  TensorType type = TensorType::float32;
  std::vector<std::int64_t> dims;
  std::uint64_t count = 0;  // elements
  std::uint64_t bytes = 0;  // room for all of them; for strings: all values joined
};

// First pass: checks everything but the range of each value. False, with a reason, if `message` is
// no tensor of the `wanted` type.
bool parse_tensor_header(Bytes message, TensorType wanted, TensorHeader& out, std::string& reason);

// Second pass, for numbers: writes the elements little-endian into `out`, which has
// `header.bytes`. The message may have changed since the first pass: then the elements may be
// any, or it is refused, but nothing is written elsewhere. Where this returns false, `out` is of no
// use.
bool fill_tensor(Bytes message, const TensorHeader& header, MutableBytes out, std::string& reason);

// Second pass, for strings: the values joined, and int64 [count + 1] offsets of their bounds from
// the start of `data`.
bool fill_string_tensor(Bytes message, const TensorHeader& header, MutableBytes offsets,
                        MutableBytes data, std::string& reason);

}  // namespace tio
