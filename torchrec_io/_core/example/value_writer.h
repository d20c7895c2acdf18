// Writes the values of one feature, cast to the element type of a column.
#pragma once

#include <algorithm>
#include <concepts>
#include <type_traits>

#include "example/feature.h"
#include "example/feature_spec.h"
#include "example/sequence.h"
#include "wire/bytes.h"
#include "wire/cast.h"
#include "wire/varint.h"

namespace tio {

// Calls `visit(T{})` with the element type of a dtype of numbers.
template <class Visit>
void visit_element(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::int64: return visit(std::int64_t{});
    case Dtype::int32: return visit(std::int32_t{});
    case Dtype::int16: return visit(std::int16_t{});
    case Dtype::int8: return visit(std::int8_t{});
    case Dtype::uint64: return visit(std::uint64_t{});
    case Dtype::uint32: return visit(std::uint32_t{});
    case Dtype::uint16: return visit(std::uint16_t{});
    case Dtype::uint8: return visit(std::uint8_t{});
    case Dtype::boolean: return visit(Boolean{});
    case Dtype::float32: return visit(float{});
    case Dtype::float64: return visit(double{});
    case Dtype::float16: return visit(Half{});
    case Dtype::bfloat16: return visit(BrainHalf{});
    case Dtype::bytes: return;
  }
}

// Room for the values of a column. The first pass counted them, but the record may have changed
// since, so the room is checked again.
template <class T>
struct ElementOutput {
  std::byte* data;
  std::size_t room;  // in elements
  std::size_t written = 0;

  bool put(T value) {
    if (written == room) return false;
    std::memcpy(data + written * sizeof(T), &value, sizeof(T));
    ++written;
    return true;
  }
};

enum class WriteResult { good, malformed, wrong_count, out_of_range };

template <class T>
WriteResult put_ints(Bytes payload, ElementOutput<T>& out) {
  VarintReader reader(payload);
  if constexpr (std::same_as<T, std::int64_t>) {
    // Columns of int64 are 8-byte aligned, so the cast is safe.
    auto* target = reinterpret_cast<std::int64_t*>(out.data) + out.written;
    out.written += reader.read(target, out.room - out.written);
    if (reader.bad()) return WriteResult::malformed;
    return reader.done() ? WriteResult::good : WriteResult::wrong_count;
  } else {
    std::int64_t values[128];
    while (!reader.done()) {
      const std::size_t count = reader.read(values, std::size(values));
      for (std::size_t i = 0; i < count; ++i) {
        T value;
        if (!cast(values[i], value)) return WriteResult::out_of_range;
        if (!out.put(value)) return WriteResult::wrong_count;
      }
      if (reader.bad()) return WriteResult::malformed;
    }
    return WriteResult::good;
  }
}

template <class T>
WriteResult put_floats(Bytes payload, ElementOutput<T>& out) {
  if (payload.size() % 4 != 0) return WriteResult::malformed;
  const std::size_t count = payload.size() / 4;
  if (count > out.room - out.written) return WriteResult::wrong_count;
  if constexpr (std::same_as<T, float>) {
    if (count != 0) std::memcpy(out.data + out.written * 4, payload.data(), payload.size());
    out.written += count;
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      if (!cast(load<float>(payload, i * 4), value)) return WriteResult::out_of_range;
      out.put(value);
    }
  }
  return WriteResult::good;
}

// Stores the most common values without a loop: one float, or one varint of up to eight bytes.
// Returns false for any other. (The offset and size are two numbers, because GCC would store a
// Location to memory and wait to load it again.)
template <class T>
[[gnu::always_inline]] inline bool store_scalar(Bytes record, std::size_t offset, std::size_t size,
                                                std::byte* target) {
  if constexpr (std::same_as<T, std::int64_t>) {
    T value = 0;
    if (size - 1 >= 8 ||
        !decode_word(load_word(record, offset), static_cast<unsigned>(size), value)) {
      return false;
    }
    std::memcpy(target, &value, sizeof(T));
    return true;
  } else if constexpr (std::same_as<T, float>) {
    if (size != sizeof(T)) return false;
    std::memcpy(target, record.data() + offset, sizeof(T));
    return true;
  }
  return false;
}

// Stores the steps of a run up to the first that is not such a value. Returns their number.
template <class T>
std::size_t put_scalars(Bytes record, const StepRun& run, ElementOutput<T>& out) {
  const std::size_t limit = std::min(run.count, out.room - out.written);
  std::byte* target = out.data + out.written * sizeof(T);
  std::size_t done = 0;
  while (done < limit &&
         store_scalar<T>(record, run.offsets[done], run.sizes[done], target + done * sizeof(T))) {
    ++done;
  }
  out.written += done;
  return done;
}

// Not inlined, so that loops over scalars stay small.
template <class T>
[[gnu::noinline]] WriteResult put_values(Bytes record, Location at, ElementOutput<T>& out) {
  WriteResult result = WriteResult::good;
  const bool whole = visit_values(record, at, [&](Bytes payload) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> ||
                  std::is_same_v<T, Half> || std::is_same_v<T, BrainHalf>) {
      result = put_floats(payload, out);
    } else {
      result = put_ints(payload, out);
    }
    return result == WriteResult::good;
  });
  return whole || result != WriteResult::good ? result : WriteResult::malformed;
}

template <class T>
inline WriteResult put_feature(Bytes record, Location at, ElementOutput<T>& out) {
  if (at.form == Form::single && out.written != out.room &&
      store_scalar<T>(record, at.offset, at.size, out.data + out.written * sizeof(T))) {
    ++out.written;
    return WriteResult::good;
  }
  return put_values(record, at, out);
}

}  // namespace tio
