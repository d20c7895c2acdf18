#include "example/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "wire/cursor.h"
#include "wire/varint.h"
#include "wire/wire.h"

namespace tio {
namespace {

// ---- the fields of TensorProto (tensorflow/core/framework/tensor.proto) ----

constexpr std::uint32_t kTypeTag = wire::tag(1, wire::varint);
constexpr std::uint32_t kShapeTag = wire::tag(2, wire::delimited);
constexpr std::uint32_t kContentTag = wire::tag(4, wire::delimited);
constexpr std::uint32_t kDimTag = wire::tag(2, wire::delimited);
constexpr std::uint32_t kDimSizeTag = wire::tag(1, wire::varint);

struct TypeTraits {
  std::size_t bytes;    // of an element; 0 for strings
  std::uint32_t list;   // the field of its values
  std::uint32_t parts;  // entries of the list that make an element
};

constexpr TypeTraits traits_of(TensorType type) {
  switch (type) {
    case TensorType::float32: return {4, 5, 1};
    case TensorType::float64: return {8, 6, 1};
    case TensorType::int32: return {4, 7, 1};
    case TensorType::uint8: return {1, 7, 1};
    case TensorType::int16: return {2, 7, 1};
    case TensorType::int8: return {1, 7, 1};
    case TensorType::string: return {0, 8, 1};
    case TensorType::complex64: return {8, 9, 2};
    case TensorType::int64: return {8, 10, 1};
    case TensorType::boolean: return {1, 11, 1};
    case TensorType::bfloat16: return {2, 13, 1};
    case TensorType::uint16: return {2, 7, 1};
    case TensorType::complex128: return {16, 12, 2};
    case TensorType::float16: return {2, 13, 1};
    case TensorType::uint32: return {4, 16, 1};
    case TensorType::uint64: return {8, 17, 1};
  }
  return {};
}

// How one entry of a list is spelled where it is not packed. False if the field is no list.
bool list_type(std::uint32_t field, wire::Type& type) {
  switch (field) {
    case 5:
    case 9: type = wire::fixed32; return true;
    case 6:
    case 12: type = wire::fixed64; return true;
    case 8: type = wire::delimited; return true;
    case 7:
    case 10:
    case 11:
    case 13:
    case 16:
    case 17: type = wire::varint; return true;
    default: return false;
  }
}

bool is_supported(std::uint32_t type) {
  constexpr auto kLast = static_cast<std::uint32_t>(TensorType::uint64);
  return type <= kLast && traits_of(static_cast<TensorType>(type)).list != 0;
}

// Names as schemas spell them.
std::string type_name(std::uint32_t number) {
  constexpr const char* kNames[] = {
      "unset",     "float32", "float64",    "int32",   "uint8",    "int16",   "int8",     "string",
      "complex64", "int64",   "bool",       "qint8",   "quint8",   "qint32",  "bfloat16", "qint16",
      "quint16",   "uint16",  "complex128", "float16", "resource", "variant", "uint32",   "uint64"};
  if (number < std::size(kNames)) return kNames[number];
  return "number " + std::to_string(static_cast<std::int32_t>(number)) + " of DataType";
}

// ---- walking ----

// Calls `visit(tag, payload)` for each field of a message but groups: the bytes of a number, or
// what a length stands before. Stops when it returns false.
template <class Visit>
bool walk_fields(Bytes message, Visit&& visit) {
  Cursor cursor(message);
  while (!cursor.done()) {
    std::uint32_t tag = 0;
    if (!cursor.read_tag(tag)) return false;
    Bytes payload;
    if ((tag & 7) == wire::delimited) {
      if (!cursor.read_delimited(payload)) return false;
    } else {
      const std::size_t from = cursor.position();
      if (!wire::skip_field(cursor, tag)) return false;
      if ((tag & 7) == wire::group) continue;
      payload = message.subspan(from, cursor.position() - from);
    }
    if (!visit(tag, payload)) return false;
  }
  return true;
}

// Whether a field holds entries of the list `field`: one of them or a packed run.
bool in_list(std::uint32_t tag, std::uint32_t field, wire::Type type) {
  return tag >> 3 == field && ((tag & 7) == type || (tag & 7) == wire::delimited);
}

bool read_number(Bytes payload, std::uint64_t& out) { return Cursor(payload).read_varint(out); }

// The size of one string of a list in tensor_content: spelled in at most 5 bytes.
bool read_string_size(Cursor& cursor, std::uint64_t& out) {
  const std::size_t from = cursor.position();
  return cursor.read_varint(out) && cursor.position() - from <= 5;
}

// Counts the entries of a run, and checks every one.
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

// ---- first pass ----

struct Fields {
  std::uint32_t type = 0;
  std::vector<std::int64_t> dims;  // no more than one too many
  Bytes content;
  std::uint64_t entries = 0;       // of the list of the wanted type
  std::uint64_t others = 0;        // of all other lists
  std::uint64_t string_bytes = 0;  // of the values of the string list
  std::uint64_t last_string = 0;
};

bool add_dims(Bytes shape, std::vector<std::int64_t>& dims) {
  return walk_fields(shape, [&](std::uint32_t tag, Bytes dim) {
    if (tag != kDimTag) return true;
    std::uint64_t size = 0;
    const bool whole = walk_fields(dim, [&](std::uint32_t dim_tag, Bytes payload) {
      return dim_tag != kDimSizeTag || read_number(payload, size);
    });
    if (whole && dims.size() <= kMostTensorDims) dims.push_back(static_cast<std::int64_t>(size));
    return whole;
  });
}

bool add_entries(std::uint32_t tag, Bytes payload, std::uint32_t wanted_list, Fields& fields) {
  const std::uint32_t field = tag >> 3;
  wire::Type type;
  if (!list_type(field, type) || !in_list(tag, field, type)) return true;
  std::uint64_t count = 0;
  if (!count_entries(payload, type, count)) return false;
  (field == wanted_list ? fields.entries : fields.others) += count;
  if (type == wire::delimited) {
    fields.string_bytes += payload.size();
    fields.last_string = payload.size();
  }
  return true;
}

bool read_fields(Bytes message, std::uint32_t wanted_list, Fields& out) {
  return walk_fields(message, [&](std::uint32_t tag, Bytes payload) {
    std::uint64_t number = 0;
    switch (tag) {
      case kTypeTag:
        if (!read_number(payload, number)) return false;
        out.type = static_cast<std::uint32_t>(number);
        return true;
      case kShapeTag: return add_dims(payload, out.dims);
      case kContentTag: out.content = payload; return true;
      default: return add_entries(tag, payload, wanted_list, out);
    }
  });
}

// Counts the elements of a shape. `size` is what one takes: all of them can be counted in bytes.
bool count_elements(const std::vector<std::int64_t>& dims, std::uint64_t size, std::uint64_t& count,
                    std::string& reason) {
  bool empty = false;
  std::int64_t bytes = static_cast<std::int64_t>(size);
  if (dims.size() > kMostTensorDims) {
    reason = "it has over " + std::to_string(kMostTensorDims) + " dimensions";
    return false;
  }
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      reason = "it has a dimension of " + std::to_string(dim);
      return false;
    }
    empty = empty || dim == 0;
    if (dim != 0 && __builtin_mul_overflow(bytes, dim, &bytes)) {
      reason = "its dimensions are too large to be multiplied";
      return false;
    }
  }
  count = empty ? 0 : static_cast<std::uint64_t>(bytes) / size;
  return true;
}

// What the string list comes to when the last value is repeated up to `count`. As large as can be
// if that overflows.
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
    reason = "its tensor_content has " + std::to_string(content.size()) +
             " bytes, its shape and dtype want " + std::to_string(out.bytes);
    return false;
  }
  Cursor cursor(content);
  out.bytes = 0;
  bool whole = true;
  for (std::uint64_t i = 0; whole && i < out.count; ++i) {
    std::uint64_t size = 0;
    whole = read_string_size(cursor, size);
    out.bytes += size;  // each size takes a byte at least: the sum does not overflow
  }
  if (whole && cursor.remaining() == out.bytes) return true;
  reason = "its tensor_content is not a list of " + std::to_string(out.count) + " strings";
  return false;
}

bool measure_list(const Fields& fields, TensorHeader& out, std::string& reason) {
  const std::uint32_t parts = traits_of(out.type).parts;
  const std::uint64_t values = fields.entries / parts;
  if (fields.entries % parts != 0) {
    reason = "its last complex number has no imaginary part";
    return false;
  }
  if (values > out.count) {
    reason = "it holds " + std::to_string(values) + (values == 1 ? " value" : " values") +
             ", its shape wants " + std::to_string(out.count);
    return false;
  }
  if (values == 0 && fields.others != 0) {
    reason = "its values are in the list of another dtype";
    return false;
  }
  if (out.type == TensorType::string) out.bytes = joined_bytes(fields, out.count);
  return true;
}

// Whether the message is large enough for the tensor that it claims. Nothing overflows: offsets
// were counted with the elements.
bool is_justified(std::size_t message_bytes, const TensorHeader& header) {
  const std::uint64_t most =
      std::max<std::uint64_t>(kFreeTensorBytes, message_bytes * kTensorBytesPerByte);
  const std::uint64_t offsets = header.type == TensorType::string ? header.count * 8 : 0;
  return offsets <= most && header.bytes <= most - offsets;
}

// ---- second pass ----

constexpr const char* kChanged = "it changed while it was read";
constexpr const char* kWrongRoom = "the room given is not what its header asks for";

// What C++ has no distinct type for.
struct Boolean {
  std::uint8_t value;
};

// From a varint to an element; false if it does not fit. For narrow ones protobuf has an int32.
template <class T>
bool narrow(std::int64_t value, T& out) {
  if constexpr (std::is_same_v<T, Boolean>) {
    out.value = value != 0;
    return true;
  } else {
    const auto number = static_cast<std::int32_t>(value);
    out = static_cast<T>(value);
    return sizeof(T) >= 4 || std::in_range<T>(number);
  }
}

// Where elements go: every step checks what room is left.
class Output {
 public:
  explicit Output(MutableBytes room) : room_(room) {}

  std::size_t size() const { return room_.size(); }
  std::size_t written() const { return at_; }
  bool full() const { return at_ == room_.size(); }

  bool put(Bytes bytes) {
    if (bytes.size() > room_.size() - at_) return false;
    if (!bytes.empty()) std::memcpy(room_.data() + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
    return true;
  }

  template <class T>
  bool put_value(const T& value) {
    return put(std::as_bytes(std::span(&value, 1)));
  }

  // Fills what is left with the last `size` bytes over and over, or with zeros if nothing was put.
  bool repeat_last(std::size_t size) {
    if (full()) return true;
    if (at_ == 0) {
      std::memset(room_.data(), 0, room_.size());
      at_ = room_.size();
      return true;
    }
    if (size == 0 || at_ < size) return false;
    // Each copy doubles what can be copied.
    const std::size_t from = at_ - size;
    while (!full()) {
      const std::size_t count = std::min(at_ - from, room_.size() - at_);
      std::memcpy(room_.data() + at_, room_.data() + from, count);
      at_ += count;
    }
    return true;
  }

 private:
  MutableBytes room_;
  std::size_t at_ = 0;
};

template <class T>
bool put_varints(Bytes payload, Output& out, std::string& reason) {
  VarintReader reader(payload);
  std::int64_t values[128];
  while (!reader.done()) {
    const std::size_t count = reader.read(values, std::size(values));
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      if (!narrow(values[i], value)) {
        reason = "its value " + std::to_string(static_cast<std::int32_t>(values[i])) +
                 " does not fit in its dtype";
        return false;
      }
      if (!out.put_value(value)) return false;
    }
    if (reader.bad()) return false;
  }
  return true;
}

bool put_run(Bytes payload, TensorType type, Output& out, std::string& reason) {
  switch (type) {
    case TensorType::float32:
    case TensorType::float64:
    case TensorType::complex64:
    case TensorType::complex128: return out.put(payload);
    case TensorType::int32:
    case TensorType::uint32: return put_varints<std::uint32_t>(payload, out, reason);
    case TensorType::uint8: return put_varints<std::uint8_t>(payload, out, reason);
    case TensorType::int16: return put_varints<std::int16_t>(payload, out, reason);
    case TensorType::int8: return put_varints<std::int8_t>(payload, out, reason);
    case TensorType::int64:
    case TensorType::uint64: return put_varints<std::uint64_t>(payload, out, reason);
    case TensorType::boolean: return put_varints<Boolean>(payload, out, reason);
    case TensorType::bfloat16:
    case TensorType::float16:
    case TensorType::uint16: return put_varints<std::uint16_t>(payload, out, reason);
    case TensorType::string: return false;
  }
  return false;
}

// The tensor_content that counts. False if the message is no longer legal.
bool find_content(Bytes message, Bytes& content) {
  return walk_fields(message, [&](std::uint32_t tag, Bytes payload) {
    if (tag == kContentTag) content = payload;
    return true;
  });
}

// Calls `visit(payload)` for each run or string of the type's list.
template <class Visit>
bool walk_list(Bytes message, TensorType type, Visit&& visit) {
  const std::uint32_t field = traits_of(type).list;
  wire::Type entry;
  if (!list_type(field, entry)) return false;
  return walk_fields(message, [&](std::uint32_t tag, Bytes payload) {
    return !in_list(tag, field, entry) || visit(payload);
  });
}

bool put_content(Bytes content, TensorType type, MutableBytes room, Output& out,
                 std::string& reason) {
  if (!out.put(content) || !out.full()) return false;
  // What was copied is checked: the message may change behind our back.
  const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
  if (type != TensorType::boolean || std::all_of(room.begin(), room.end(), is_bool)) return true;
  reason = "its tensor_content has a byte that is no bool";
  return false;
}

bool put_numbers(Bytes message, TensorType type, MutableBytes room, std::string& reason) {
  Output out(room);
  Bytes content;
  if (!find_content(message, content)) return false;
  if (!content.empty()) return put_content(content, type, room, out, reason);
  const std::size_t element = traits_of(type).bytes;
  return walk_list(message, type,
                   [&](Bytes payload) { return put_run(payload, type, out, reason); }) &&
         out.written() % element == 0 && out.repeat_last(element);
}

class StringOutput {
 public:
  StringOutput(MutableBytes offsets, MutableBytes data) : offsets_(offsets), data_(data) {}

  bool put(Bytes value) {
    last_ = value.size();
    return put_offset(data_.written()) && data_.put(value);
  }

  // Repeats the last value up to `count`, which must take just the room that is left.
  bool finish(std::uint64_t count) {
    std::uint64_t at = data_.written();
    for (std::uint64_t i = offsets_.written() / 8; i < count; ++i, at += last_) {
      if (last_ > data_.size() - at || !put_offset(at)) return false;
    }
    return at == data_.size() && put_offset(at) && data_.repeat_last(last_);
  }

 private:
  bool put_offset(std::uint64_t at) { return offsets_.put_value(static_cast<std::int64_t>(at)); }

  Output offsets_;
  Output data_;
  std::size_t last_ = 0;
};

// All sizes come first, then all values.
bool put_string_content(Bytes content, std::uint64_t count, StringOutput& out) {
  Cursor sizes(content);
  Cursor values(content);
  std::uint64_t size = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!read_string_size(values, size)) return false;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    Bytes value;
    if (!read_string_size(sizes, size) || !values.read_bytes(size, value) || !out.put(value)) {
      return false;
    }
  }
  return values.done();
}

bool put_strings(Bytes message, std::uint64_t count, StringOutput& out) {
  Bytes content;
  if (!find_content(message, content)) return false;
  const bool whole = content.empty() ? walk_list(message, TensorType::string,
                                                 [&](Bytes value) { return out.put(value); })
                                     : put_string_content(content, count, out);
  return whole && out.finish(count);
}

bool check_type(std::uint32_t type, TensorType wanted, std::string& reason) {
  if (!is_supported(type)) {
    reason = "its dtype is " + type_name(type) + ", which is not supported";
  } else if (type != static_cast<std::uint32_t>(wanted)) {
    reason = "its dtype is " + type_name(type) + ", the schema wants " +
             type_name(static_cast<std::uint32_t>(wanted));
  } else {
    return true;
  }
  return false;
}

bool refuse(std::string& reason, const char* why) {
  if (reason.empty()) reason = why;
  return false;
}

}  // namespace

std::size_t tensor_element_bytes(TensorType type) { return traits_of(type).bytes; }

bool parse_tensor_header(Bytes message, TensorType wanted, TensorHeader& out, std::string& reason) {
  Fields fields;
  reason.clear();
  if (!read_fields(message, traits_of(wanted).list, fields)) {
    return refuse(reason, "it is not a TensorProto: cut short or not legal");
  }
  if (!check_type(fields.type, wanted, reason)) return false;
  const bool is_string = wanted == TensorType::string;
  const std::size_t size = is_string ? sizeof(std::int64_t) : traits_of(wanted).bytes;
  if (!count_elements(fields.dims, size, out.count, reason)) return false;
  out.type = wanted;
  out.bytes = is_string ? 0 : out.count * size;
  const bool measured = fields.content.empty() ? measure_list(fields, out, reason)
                                               : measure_content(fields.content, out, reason);
  if (!measured) return false;
  if (!is_justified(message.size(), out)) {
    reason = "its shape claims " + std::to_string(out.count) + " elements, too many for the " +
             std::to_string(message.size()) + " bytes that it has";
    return false;
  }
  out.dims = std::move(fields.dims);
  return true;
}

bool fill_tensor(Bytes message, const TensorHeader& header, MutableBytes out, std::string& reason) {
  reason.clear();
  if (header.type == TensorType::string || out.size() != header.bytes) {
    return refuse(reason, kWrongRoom);
  }
  return put_numbers(message, header.type, out, reason) || refuse(reason, kChanged);
}

bool fill_string_tensor(Bytes message, const TensorHeader& header, MutableBytes offsets,
                        MutableBytes data, std::string& reason) {
  reason.clear();
  if (header.type != TensorType::string || offsets.size() != (header.count + 1) * 8 ||
      data.size() != header.bytes) {
    return refuse(reason, kWrongRoom);
  }
  StringOutput out(offsets, data);
  return put_strings(message, header.count, out) || refuse(reason, kChanged);
}

}  // namespace tio
