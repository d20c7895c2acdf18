// Byte views used across the core. Nothing here owns memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace tio {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

static_assert(sizeof(std::size_t) == 8, "record files pass 4 GiB: a 64-bit platform is needed");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "every format read here is little-endian");

// Reads a T that starts at `at`. The caller has checked that it lies inside `bytes`.
template <class T>
inline T load(Bytes bytes, std::size_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Reads a number of up to 8 bytes that starts at `at`; zeros stand for what is behind the end.
inline std::uint64_t load_word(Bytes bytes, std::size_t at) {
  const std::size_t left = bytes.size() - at;
  if (left >= 8) return load<std::uint64_t>(bytes, at);
  std::uint64_t word = 0;
  if (left != 0) std::memcpy(&word, bytes.data() + at, left);
  return word;
}

template <class T>
inline void store(MutableBytes bytes, std::size_t at, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace tio
