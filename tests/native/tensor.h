// Builds TensorProtos by hand and reads tensors into memory of just the size they ask for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encode.h"
#include "tensor_proto.h"

namespace tio::test {

// ---- messages ----

inline std::string dim(std::uint64_t size) { return delimited(2, varint_field(1, size)); }

inline std::string shape(const std::vector<std::uint64_t>& dims) {
  std::string out;
  for (const auto size : dims) out += dim(size);
  return delimited(2, out);
}

// What stands before the values of a tensor.
inline std::string head(std::uint64_t type, const std::vector<std::uint64_t>& dims) {
  return varint_field(1, type) + shape(dims);
}

inline std::string head(TensorType type, const std::vector<std::uint64_t>& dims) {
  return head(static_cast<std::uint64_t>(type), dims);
}

inline std::string content(const std::string& bytes) { return delimited(4, bytes); }

inline std::string varint_list(std::uint32_t field, const std::vector<std::int64_t>& values) {
  return delimited(field, joined_varints(values));
}

template <class T>
std::string joined(const std::vector<T>& values) {
  std::string out;
  for (const auto value : values) out += little_endian(value);
  return out;
}

inline std::string string_list(const std::vector<std::string>& values) {
  std::string out;
  for (const auto& value : values) out += delimited(8, value);
  return out;
}

// ---- reading ----

struct ReadTensor {
  bool good = false;
  std::string reason;
  TensorHeader header;
  std::vector<std::string> values;  // the bytes of each element
};

// The second pass, over a message that need not be the one that `header` comes from.
inline ReadTensor fill(const std::string& message, const TensorHeader& header) {
  ReadTensor out;
  out.header = header;
  const auto bytes = exact(message);
  constexpr std::byte kUnwritten{0xa5};
  std::vector<std::byte> data(header.bytes, kUnwritten);
  const std::size_t element = tensor_element_bytes(header.type);
  if (header.type != TensorType::string) {
    out.good = fill_tensor(bytes, header, data, out.reason);
    for (std::size_t at = 0; at < data.size() && out.good; at += element) {
      out.values.emplace_back(reinterpret_cast<const char*>(data.data()) + at, element);
    }
    return out;
  }
  std::vector<std::byte> offsets((header.count + 1) * 8, kUnwritten);
  out.good = fill_string_tensor(bytes, header, offsets, data, out.reason);
  for (std::size_t i = 0; i < header.count && out.good; ++i) {
    const auto from = load<std::uint64_t>(offsets, i * 8);
    const auto to = load<std::uint64_t>(offsets, i * 8 + 8);
    out.good = from <= to && to <= data.size();
    if (!out.good) {
      out.reason = "offsets that are none";
      return out;
    }
    out.values.emplace_back(reinterpret_cast<const char*>(data.data()) + from, to - from);
  }
  return out;
}

inline ReadTensor read_tensor(const std::string& message, TensorType type) {
  ReadTensor out;
  if (!parse_tensor_header(exact(message), type, out.header, out.reason)) return out;
  return fill(message, out.header);
}

}  // namespace tio::test
