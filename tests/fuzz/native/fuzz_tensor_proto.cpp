// Compares the decoding of TensorProtos with protobuf: the same bytes are accepted and the same
// elements read, and nothing is written out of bounds if the message changes between the two
// passes.
//
// Input: a message.
//
// Intended differences:
//  - Skipped fields may have any content: tensor.proto lacks these fields, and its dimensions have
//  names
//    of bytes.
//  - Depth: protobuf counts the depth of a group from the root message, the core from the field
//  that
//    contains it. At the few levels in between, both results are right.
//  - Tags of five bytes may have more than 32 bits. This protobuf drops the extra bits. The core
//  rejects
//    them, because such field numbers do not exist (may_hold_wide_tag).
// The meaning of the fields is implemented a second time below; see tensor_proto.h.
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference.h"
#include "require.h"
#include "tensor.h"
#include "tensor.pb.h"
#include "wire_target.h"

namespace tio::fuzz {
namespace {

using Message = torchrec_io::fuzz::Tensor;
using Values = std::vector<std::string>;
using Wide = unsigned __int128;

// ---- validity in protobuf ----

constexpr int kDeepest = 100;
constexpr int kLevels = 2;  // of messages below the root

bool parse(const std::string& bytes, int depth, Message& message) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(depth);
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

bool may_hold_wide_tag(const std::string& bytes) {
  for (std::size_t i = 4; i < bytes.size(); ++i) {
    const auto byte = [&](std::size_t back) { return static_cast<unsigned char>(bytes[i - back]); };
    const bool fifth = byte(4) >= 0x80 && byte(3) >= 0x80 && byte(2) >= 0x80 && byte(1) >= 0x80;
    if (fifth && byte(0) >= 0x10 && byte(0) < 0x80) return true;
  }
  return false;
}

// ---- meaning of the fields ----

// Returns the entries of a list as elements of T, or nothing if one is out of range.
template <class T, class List>
std::optional<Values> cast(const List& list) {
  Values values;
  for (const auto number : list) {
    if constexpr (sizeof(T) < 4 && sizeof(number) == 4) {
      if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) {
        return std::nullopt;
      }
    }
    values.push_back(test::little_endian(static_cast<T>(number)));
  }
  return values;
}

// Returns elements of two entries each.
template <class T, class List>
std::optional<Values> pair_up(const List& list) {
  if (list.size() % 2 != 0) return std::nullopt;
  Values values;
  for (int i = 0; i < list.size(); i += 2) {
    values.push_back(test::little_endian<T>(list[i]) + test::little_endian<T>(list[i + 1]));
  }
  return values;
}

std::optional<Values> typed_values(const Message& message, TensorType type) {
  switch (type) {
    case TensorType::float32: return cast<float>(message.float_val());
    case TensorType::float64: return cast<double>(message.double_val());
    case TensorType::int32: return cast<std::int32_t>(message.int_val());
    case TensorType::uint8: return cast<std::uint8_t>(message.int_val());
    case TensorType::int16: return cast<std::int16_t>(message.int_val());
    case TensorType::int8: return cast<std::int8_t>(message.int_val());
    case TensorType::string:
      return Values(message.string_val().begin(), message.string_val().end());
    case TensorType::complex64: return pair_up<float>(message.scomplex_val());
    case TensorType::int64: return cast<std::int64_t>(message.int64_val());
    case TensorType::boolean: return cast<std::uint8_t>(message.bool_val());
    case TensorType::bfloat16: return cast<std::uint16_t>(message.half_val());
    case TensorType::uint16: return cast<std::uint16_t>(message.int_val());
    case TensorType::complex128: return pair_up<double>(message.dcomplex_val());
    case TensorType::float16: return cast<std::uint16_t>(message.half_val());
    case TensorType::uint32: return cast<std::uint32_t>(message.uint32_val());
    case TensorType::uint64: return cast<std::uint64_t>(message.uint64_val());
  }
  return std::nullopt;
}

bool has_typed_values(const Message& m) {
  return m.float_val_size() + m.double_val_size() + m.int_val_size() + m.string_val_size() +
             m.scomplex_val_size() + m.int64_val_size() + m.bool_val_size() +
             m.dcomplex_val_size() + m.half_val_size() + m.uint32_val_size() +
             m.uint64_val_size() !=
         0;
}

std::optional<Values> string_content(const std::string& content, Wide count) {
  const Bytes bytes = std::as_bytes(std::span(content));
  std::vector<std::uint64_t> sizes;
  std::size_t at = 0;
  while (sizes.size() < count) {
    const std::size_t from = at;
    const auto size = test::reference_varint(bytes, at);
    if (!size || at - from > 5) return std::nullopt;
    sizes.push_back(*size);
  }
  Values values;
  for (const auto size : sizes) {
    if (size > content.size() - at) return std::nullopt;
    values.push_back(content.substr(at, size));
    at += size;
  }
  return at == content.size() ? std::optional(values) : std::nullopt;
}

// Repeats the last element in place of missing ones.
std::optional<Values> stored_values(const Message& message, TensorType type, Wide count) {
  const std::string& content = message.tensor_content();
  const std::size_t size = tensor_element_bytes(type);
  if (!content.empty() && type == TensorType::string) return string_content(content, count);
  if (!content.empty()) {
    if (content.size() != count * size) return std::nullopt;
    const auto is_bool = [](char byte) { return byte == 0 || byte == 1; };
    const bool legal =
        type != TensorType::boolean || std::all_of(content.begin(), content.end(), is_bool);
    Values values;
    for (std::size_t at = 0; at < content.size(); at += size) {
      values.push_back(content.substr(at, size));
    }
    return legal ? std::optional(values) : std::nullopt;
  }
  const auto values = typed_values(message, type);
  if (!values || values->size() > count) return std::nullopt;
  if (values->empty() && has_typed_values(message)) return std::nullopt;
  return values;
}

struct Elements {
  std::uint64_t count = 0;
  std::string data;
  std::vector<std::int64_t> offsets;  // for strings
};

std::optional<Elements> expected(const Message& message, TensorType type,
                                 std::size_t message_bytes) {
  if (message.dtype() != static_cast<int>(type)) return std::nullopt;
  const bool is_string = type == TensorType::string;
  const std::size_t size = is_string ? 8 : tensor_element_bytes(type);
  Wide count = 1;
  Wide nonzero = size;
  if (message.tensor_shape().dim_size() > 254) return std::nullopt;
  for (const auto& dim : message.tensor_shape().dim()) {
    if (dim.size() < 0) return std::nullopt;
    const auto wide = static_cast<Wide>(dim.size());
    if (wide != 0) nonzero *= wide;
    if (nonzero >> 63 != 0) return std::nullopt;
    count *= wide;
  }
  const auto values = stored_values(message, type, count);
  if (!values) return std::nullopt;
  Wide bytes = is_string ? count * 8 : 0;
  for (const auto& value : *values) bytes += value.size();
  const std::string none(tensor_element_bytes(type), '\0');
  const std::string& last = values->empty() ? none : values->back();
  const Wide repeated = count - values->size();
  bytes += repeated * last.size();
  if (bytes > std::max<Wide>(kFreeTensorBytes, kTensorBytesPerByte * Wide{message_bytes}))
    return std::nullopt;

  Elements out;
  out.count = static_cast<std::uint64_t>(count);
  out.data.reserve(static_cast<std::size_t>(bytes));
  const auto add = [&](const std::string& value) {
    if (is_string) out.offsets.push_back(static_cast<std::int64_t>(out.data.size()));
    out.data += value;
  };
  for (const auto& value : *values) add(value);
  for (std::uint64_t i = values->size(); i < out.count; ++i) add(last);
  if (is_string) out.offsets.push_back(static_cast<std::int64_t>(out.data.size()));
  return out;
}

// ---- comparisons ----

void check_read(const std::string& input, const Message& message, bool legal, bool may_refuse,
                TensorType type) {
  const auto elements = legal ? expected(message, type, input.size()) : std::nullopt;
  const test::ReadTensor read = test::read_tensor(input, type);
  require(read.good == read.reason.empty(), "a verdict without a reason, or one too many");
  if (!elements)
    return require(!read.good, "accepted a tensor that protobuf or TensorFlow rejects");
  if (!read.good) return require(may_refuse, "refused: " + read.reason);
  const auto& dims = message.tensor_shape().dim();
  const auto same = [](const auto& dim, std::int64_t size) { return dim.size() == size; };
  require(
      std::equal(dims.begin(), dims.end(), read.header.dims.begin(), read.header.dims.end(), same),
      "another shape");
  require(read.header.count == elements->count, "another number of elements");
  require(read.data == elements->data, "other elements");
  require(read.offsets == elements->offsets, "other bounds of strings");
}

// Fills memory of the exact size from messages other than those that were measured.
void check_changed(const std::string& input, TensorType type) {
  TensorHeader header;
  std::string reason;
  if (!parse_tensor_header(test::exact(input), type, header, reason)) return;
  if (input.empty() || header.bytes + header.count > 1 << 16) return;
  std::size_t random = std::hash<std::string>()(input);
  for (int round = 0; round < 8; ++round) {
    std::string changed = input.substr(0, round == 0 ? random % input.size() : input.size());
    for (int i = 0; i < round && !changed.empty(); ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      char& byte = changed[(random >> 33) % changed.size()];
      byte = static_cast<char>(byte + (random >> 60));
    }
    const test::ReadTensor read = test::fill(changed, header);
    require(read.good == read.reason.empty(), "a verdict without a reason, or one too many");
    if (!read.good || type != TensorType::string) continue;
    require(read.offsets.front() == 0, "strings that do not begin at 0");
    require(read.offsets.back() == static_cast<std::int64_t>(header.bytes),
            "strings that end elsewhere");
    require(std::is_sorted(read.offsets.begin(), read.offsets.end()), "strings that overlap");
  }
}

constexpr TensorType kTypes[] = {
    TensorType::float32,    TensorType::float64, TensorType::int32,    TensorType::uint8,
    TensorType::int16,      TensorType::int8,    TensorType::string,   TensorType::complex64,
    TensorType::int64,      TensorType::boolean, TensorType::bfloat16, TensorType::uint16,
    TensorType::complex128, TensorType::float16, TensorType::uint32,   TensorType::uint64};

void check(const std::string& input) {
  Message message;
  Message strict;
  const bool legal = parse(input, kDeepest + kLevels, message);
  const bool may_refuse = !parse(input, kDeepest, strict) || may_hold_wide_tag(input);
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    const bool is_stored = message.dtype() == static_cast<int>(kTypes[i]);
    if (!is_stored && i != input.size() % std::size(kTypes)) continue;
    check_read(input, message, legal, may_refuse, kTypes[i]);
    check_changed(input, kTypes[i]);
  }
}

}  // namespace
}  // namespace tio::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tio::fuzz::check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
