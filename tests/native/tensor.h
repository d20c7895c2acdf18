// Builds TensorProtos by hand, and reads tensors into memory of exactly their size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encode.h"
#include "example/tensor_proto.h"

namespace tio::test {

// ---- messages ----

inline std::string dim(std::uint64_t size) { return delimited(2, varint_field(1, size)); }

inline std::string shape(const std::vector<std::uint64_t>& dims) {
  std::string out;
  for (const auto size : dims) out += dim(size);
  return delimited(2, out);
}

// Returns the fields before the values of a tensor.
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
  std::string data;
  std::vector<std::int64_t> offsets;  // for strings: bounds of the elements in the data

  // Returns the bytes of each element.
  std::vector<std::string> values() const {
    std::vector<std::string> out;
    const std::size_t size = tensor_element_bytes(header.type);
    for (std::size_t i = 0; i < header.count && good; ++i) {
      const std::size_t from = size == 0 ? offsets.at(i) : i * size;
      out.push_back(data.substr(from, size == 0 ? offsets.at(i + 1) - from : size));
    }
    return out;
  }
};

// Runs the second pass over a message, which may differ from the one of the header.
inline ReadTensor fill(const std::string& message, const TensorHeader& header) {
  ReadTensor out;
  out.header = header;
  const auto bytes = exact(message);
  const bool is_string = header.type == TensorType::string;
  constexpr std::byte kUnwritten{0xa5};
  std::vector<std::byte> data(header.bytes, kUnwritten);
  std::vector<std::byte> offsets(is_string ? (header.count + 1) * 8 : 0, kUnwritten);
  out.good = is_string ? fill_string_tensor(bytes, header, offsets, data, out.reason)
                       : fill_tensor(bytes, header, data, out.reason);
  if (!out.good) return out;
  out.data.assign(reinterpret_cast<const char*>(data.data()), data.size());
  for (std::size_t at = 0; at < offsets.size(); at += 8) {
    out.offsets.push_back(load<std::int64_t>(offsets, at));
  }
  return out;
}

inline ReadTensor read_tensor(const std::string& message, TensorType type) {
  ReadTensor out;
  if (!parse_tensor_header(exact(message), type, out.header, out.reason)) return out;
  return fill(message, out.header);
}

}  // namespace tio::test
