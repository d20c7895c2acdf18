// The fields of the protobuf messages that the core reads and writes, as tags: field number and
// wire type. Sources: example.proto, feature.proto, tensor.proto and tensor_shape.proto of
// TensorFlow, example_list_with_context.proto of TF-Ranking.
#pragma once

#include <cstdint>

#include "wire/field.h"

namespace tio::fields {

using wire::tag;

// message Example { Features features = 1; }
// message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
// The core reads both alike: the features of an Example are its context.
inline constexpr std::uint32_t kContext = tag(1, wire::delimited);
inline constexpr std::uint32_t kFeatureLists = tag(2, wire::delimited);

// message Features { map<string, Feature> feature = 1; }
// message FeatureLists { map<string, FeatureList> feature_list = 1; }
inline constexpr std::uint32_t kMapEntry = tag(1, wire::delimited);
inline constexpr std::uint32_t kMapKey = tag(1, wire::delimited);
inline constexpr std::uint32_t kMapValue = tag(2, wire::delimited);

// message FeatureList { repeated Feature feature = 1; }
inline constexpr std::uint32_t kStep = tag(1, wire::delimited);

// message Feature { oneof kind { BytesList .. = 1; FloatList .. = 2; Int64List .. = 3; } }
inline constexpr std::uint32_t kBytesListField = 1;
inline constexpr std::uint32_t kFloatListField = 2;
inline constexpr std::uint32_t kInt64ListField = 3;

// message BytesList { repeated bytes value = 1; }
// message FloatList { repeated float value = 1 [packed = true]; }
// message Int64List { repeated int64 value = 1 [packed = true]; }
// A bytes value or a packed run of numbers; then the tags of single numbers.
inline constexpr std::uint32_t kListValue = tag(1, wire::delimited);
inline constexpr std::uint32_t kUnpackedFloat = tag(1, wire::fixed32);
inline constexpr std::uint32_t kUnpackedInt = tag(1, wire::varint);

// message ExampleListWithContext { repeated Example examples = 1; Example context = 2; }
inline constexpr std::uint32_t kListExample = tag(1, wire::delimited);
inline constexpr std::uint32_t kListContext = tag(2, wire::delimited);

// message TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2; .. }
inline constexpr std::uint32_t kTensorDtype = tag(1, wire::varint);
inline constexpr std::uint32_t kTensorShape = tag(2, wire::delimited);
inline constexpr std::uint32_t kTensorContent = tag(4, wire::delimited);

// The lists of TensorProto that hold values, one per kind of number.
inline constexpr std::uint32_t kFloatValField = 5;
inline constexpr std::uint32_t kDoubleValField = 6;
inline constexpr std::uint32_t kIntValField = 7;
inline constexpr std::uint32_t kStringValField = 8;
inline constexpr std::uint32_t kScomplexValField = 9;
inline constexpr std::uint32_t kInt64ValField = 10;
inline constexpr std::uint32_t kBoolValField = 11;
inline constexpr std::uint32_t kDcomplexValField = 12;
inline constexpr std::uint32_t kHalfValField = 13;
inline constexpr std::uint32_t kUint32ValField = 16;
inline constexpr std::uint32_t kUint64ValField = 17;

// message TensorShapeProto { message Dim { int64 size = 1; } repeated Dim dim = 2; }
inline constexpr std::uint32_t kShapeDim = tag(2, wire::delimited);
inline constexpr std::uint32_t kDimSize = tag(1, wire::varint);

}  // namespace tio::fields
