// The second pass over a TensorProto: its values.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "example/tensor_fields.h"
#include "example/tensor_proto.h"
#include "wire/cast.h"
#include "wire/varint.h"

namespace tio {

using namespace tensor_detail;

namespace {

constexpr const char* kChanged = "the tensor changed while it was read";
constexpr const char* kWrongSize = "the output does not have the size of the tensor";

// Casts a varint to an element. Returns false if it does not fit. Protobuf stores an int32 for
// narrow types.
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

// The memory that elements are written to. Each write checks the room that is left.
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

  // Fills the rest by repeating the last `size` bytes, or with zeros if nothing was written.
  bool repeat_last(std::size_t size) {
    if (full()) return true;
    if (at_ == 0) {
      std::memset(room_.data(), 0, room_.size());
      at_ = room_.size();
      return true;
    }
    if (size == 0 || at_ < size) return false;
    // Each copy doubles the bytes that the next one can copy.
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
        reason = "the value " + std::to_string(static_cast<std::int32_t>(values[i])) +
                 " does not fit in the dtype of the tensor";
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

// Finds the last tensor_content. Returns false if the message is no longer valid.
bool find_content(Bytes message, Bytes& content) {
  return walk_fields(message, [&](std::uint32_t tag, Bytes payload) {
    if (tag == fields::kTensorContent) content = payload;
    return true;
  });
}

// Calls `visit(payload)` for each run or string in the list of a type.
template <class Visit>
bool walk_list(Bytes message, TensorType type, Visit&& visit) {
  const std::uint32_t field = traits_of(type).list;
  wire::Type entry;
  if (!find_entry_type(field, entry)) return false;
  return walk_fields(message, [&](std::uint32_t tag, Bytes payload) {
    return !is_in_list(tag, field, entry) || visit(payload);
  });
}

bool put_content(Bytes content, TensorType type, MutableBytes room, Output& out,
                 std::string& reason) {
  if (!out.put(content) || !out.full()) return false;
  // Checks the copy, because the message may change at any time.
  const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
  if (type != TensorType::boolean || std::all_of(room.begin(), room.end(), is_bool)) return true;
  reason = "the tensor_content has a byte that is not a bool";
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

  // Repeats the last value up to `count` values. They must fill the remaining room exactly.
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

// The content has all sizes, then all values.
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

// Sets a reason unless there is one already, and returns false.
bool fail_with(std::string& reason, const char* why) {
  if (reason.empty()) reason = why;
  return false;
}

}  // namespace

bool fill_tensor(Bytes message, const TensorHeader& header, MutableBytes out, std::string& reason) {
  reason.clear();
  if (header.type == TensorType::string || out.size() != header.bytes) {
    return fail_with(reason, kWrongSize);
  }
  return put_numbers(message, header.type, out, reason) || fail_with(reason, kChanged);
}

bool fill_string_tensor(Bytes message, const TensorHeader& header, MutableBytes offsets,
                        MutableBytes data, std::string& reason) {
  reason.clear();
  if (header.type != TensorType::string || offsets.size() != (header.count + 1) * 8 ||
      data.size() != header.bytes) {
    return fail_with(reason, kWrongSize);
  }
  StringOutput out(offsets, data);
  return put_strings(message, header.count, out) || fail_with(reason, kChanged);
}

}  // namespace tio
