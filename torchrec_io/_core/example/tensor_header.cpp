// The first pass over a TensorProto: its header and size.
#include <algorithm>
#include <iterator>
#include <utility>

#include "example/tensor_fields.h"
#include "example/tensor_proto.h"
#include "wire/varint.h"

namespace tio {

using namespace tensor_detail;

namespace {

bool is_supported(std::uint32_t type) {
  constexpr auto kLast = static_cast<std::uint32_t>(TensorType::uint64);
  return type <= kLast && traits_of(static_cast<TensorType>(type)).list != 0;
}

// Returns the name of a dtype as schemas spell it.
std::string type_name(std::uint32_t number) {
  constexpr const char* kDtypeNames[] = {
      "unset",     "float32", "float64",    "int32",   "uint8",    "int16",   "int8",     "string",
      "complex64", "int64",   "bool",       "qint8",   "quint8",   "qint32",  "bfloat16", "qint16",
      "quint16",   "uint16",  "complex128", "float16", "resource", "variant", "uint32",   "uint64"};
  if (number < std::size(kDtypeNames)) return kDtypeNames[number];
  return "number " + std::to_string(static_cast<std::int32_t>(number)) + " of DataType";
}

bool read_number(Bytes payload, std::uint64_t& out) { return Cursor(payload).read_varint(out); }

// Counts the entries of a run and checks each of them.
bool count_entries(Bytes payload, wire::Type type, std::uint64_t& count) {
  count = 1;
  if (type == wire::delimited) return true;
  if (type != wire::varint) {
    const std::size_t size = type == wire::fixed32 ? 4 : 8;
    count = payload.size() / size;
    return payload.size() % size == 0;
  }
  count = 0;
  VarintReader reader(payload);
  std::int64_t values[128];
  while (!reader.done() && !reader.bad()) count += reader.read(values, std::size(values));
  return !reader.bad();
}

struct Fields {
  std::uint32_t type = 0;
  std::vector<std::int64_t> dims;  // at most one more than allowed
  Bytes content;
  std::uint64_t entries = 0;       // in the list of the expected type
  std::uint64_t others = 0;        // in all other lists
  std::uint64_t string_bytes = 0;  // total size of the string list
  std::uint64_t last_string = 0;
};

bool add_dims(Bytes shape, std::vector<std::int64_t>& dims) {
  return walk_fields(shape, [&](std::uint32_t tag, Bytes dim) {
    if (tag != fields::kShapeDim) return true;
    std::uint64_t size = 0;
    const bool whole = walk_fields(dim, [&](std::uint32_t dim_tag, Bytes payload) {
      return dim_tag != fields::kDimSize || read_number(payload, size);
    });
    if (whole && dims.size() <= kMaxTensorDims) dims.push_back(static_cast<std::int64_t>(size));
    return whole;
  });
}

bool add_entries(std::uint32_t tag, Bytes payload, std::uint32_t expected_list, Fields& fields) {
  const std::uint32_t field = tag >> 3;
  wire::Type type;
  if (!find_entry_type(field, type) || !is_in_list(tag, field, type)) return true;
  std::uint64_t count = 0;
  if (!count_entries(payload, type, count)) return false;
  (field == expected_list ? fields.entries : fields.others) += count;
  if (type == wire::delimited) {
    fields.string_bytes += payload.size();
    fields.last_string = payload.size();
  }
  return true;
}

bool read_fields(Bytes message, std::uint32_t expected_list, Fields& out) {
  return walk_fields(message, [&](std::uint32_t tag, Bytes payload) {
    std::uint64_t number = 0;
    switch (tag) {
      case fields::kTensorDtype:
        if (!read_number(payload, number)) return false;
        out.type = static_cast<std::uint32_t>(number);
        return true;
      case fields::kTensorShape: return add_dims(payload, out.dims);
      case fields::kTensorContent: out.content = payload; return true;
      default: return add_entries(tag, payload, expected_list, out);
    }
  });
}

// Counts the elements of a shape. `size` is the size of an element: the total size in bytes must
// not overflow.
bool count_elements(const std::vector<std::int64_t>& dims, std::uint64_t size, std::uint64_t& count,
                    std::string& reason) {
  bool empty = false;
  std::int64_t bytes = static_cast<std::int64_t>(size);
  if (dims.size() > kMaxTensorDims) {
    reason = "the tensor has more than " + std::to_string(kMaxTensorDims) + " dimensions";
    return false;
  }
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      reason = "the tensor has a negative dimension, " + std::to_string(dim);
      return false;
    }
    empty = empty || dim == 0;
    if (dim != 0 && __builtin_mul_overflow(bytes, dim, &bytes)) {
      reason = "the product of the dimensions of the tensor overflows";
      return false;
    }
  }
  count = empty ? 0 : static_cast<std::uint64_t>(bytes) / size;
  return true;
}

// Returns the size of the string list after its last value is repeated up to `count` values, or
// UINT64_MAX if it overflows.
std::uint64_t joined_bytes(const Fields& fields, std::uint64_t count) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count - fields.entries, fields.last_string, &bytes) ||
      __builtin_add_overflow(bytes, fields.string_bytes, &bytes)) {
    return ~std::uint64_t{0};
  }
  return bytes;
}

bool measure_content(Bytes content, TensorHeader& out, std::string& reason) {
  if (out.type != TensorType::string) {
    if (content.size() == out.bytes) return true;
    reason = "the tensor_content has " + std::to_string(content.size()) +
             " bytes, but the shape and dtype require " + std::to_string(out.bytes);
    return false;
  }
  Cursor cursor(content);
  out.bytes = 0;
  bool whole = true;
  for (std::uint64_t i = 0; whole && i < out.count; ++i) {
    std::uint64_t size = 0;
    whole = read_string_size(cursor, size);
    out.bytes += size;  // each size takes at least a byte, so the sum cannot overflow
  }
  if (whole && cursor.remaining() == out.bytes) return true;
  reason = "the tensor_content is not a list of " + std::to_string(out.count) + " strings";
  return false;
}

bool measure_list(const Fields& fields, TensorHeader& out, std::string& reason) {
  const std::uint32_t parts = traits_of(out.type).parts;
  const std::uint64_t values = fields.entries / parts;
  if (fields.entries % parts != 0) {
    reason = "the last complex number has no imaginary part";
    return false;
  }
  if (values > out.count) {
    reason = "the tensor has " + std::to_string(values) + (values == 1 ? " value" : " values") +
             ", but its shape allows only " + std::to_string(out.count);
    return false;
  }
  if (values == 0 && fields.others != 0) {
    reason = "the values of the tensor are in the list of another dtype";
    return false;
  }
  if (out.type == TensorType::string) out.bytes = joined_bytes(fields, out.count);
  return true;
}

// Returns whether the message is large enough for the tensor that it describes. Nothing overflows,
// because the offsets were counted with the elements.
bool is_justified(std::size_t message_bytes, const TensorHeader& header) {
  const std::uint64_t limit =
      std::max<std::uint64_t>(kFreeTensorBytes, message_bytes * kTensorBytesPerByte);
  const std::uint64_t offsets = header.type == TensorType::string ? header.count * 8 : 0;
  return offsets <= limit && header.bytes <= limit - offsets;
}

bool check_type(std::uint32_t type, TensorType expected, std::string& reason) {
  if (!is_supported(type)) {
    reason = "the dtype of the tensor is " + type_name(type) + ", which is not supported";
  } else if (type != static_cast<std::uint32_t>(expected)) {
    reason = "the dtype of the tensor is " + type_name(type) + ", the schema wants " +
             type_name(static_cast<std::uint32_t>(expected));
  } else {
    return true;
  }
  return false;
}

}  // namespace

std::size_t tensor_element_bytes(TensorType type) { return traits_of(type).bytes; }

bool parse_tensor_header(Bytes message, TensorType expected, TensorHeader& out,
                         std::string& reason) {
  Fields fields;
  reason.clear();
  if (!read_fields(message, traits_of(expected).list, fields)) {
    reason = "the bytes are not a TensorProto: truncated or invalid";
    return false;
  }
  if (!check_type(fields.type, expected, reason)) return false;
  const bool is_string = expected == TensorType::string;
  const std::size_t size = is_string ? sizeof(std::int64_t) : traits_of(expected).bytes;
  if (!count_elements(fields.dims, size, out.count, reason)) return false;
  out.type = expected;
  out.bytes = is_string ? 0 : out.count * size;
  const bool measured = fields.content.empty() ? measure_list(fields, out, reason)
                                               : measure_content(fields.content, out, reason);
  if (!measured) return false;
  if (!is_justified(message.size(), out)) {
    reason = "the shape claims " + std::to_string(out.count) + " elements, too many for the " +
             std::to_string(message.size()) + " bytes of the tensor";
    return false;
  }
  out.dims = std::move(fields.dims);
  return true;
}

}  // namespace tio
