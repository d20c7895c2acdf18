// Byte views that the whole core uses. They do not own memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

namespace tio {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Keeps the memory of a view alive. Objects that store a view store its owner too.
using Owner = std::shared_ptr<const void>;

static_assert(sizeof(std::size_t) == 8,
              "record files exceed 4 GiB, so a 64-bit platform is needed");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the core reads little-endian formats");

// Returns whether `size` bytes at offset `at` lie inside of `whole` bytes.
constexpr bool is_inside(std::int64_t at, std::int64_t size, std::size_t whole) {
  const auto end = static_cast<std::int64_t>(whole);
  return at >= 0 && size >= 0 && at <= end && size <= end - at;
}

// Returns whether `count` items of `size` bytes at offset `at` lie inside of `whole` bytes,
// aligned.
constexpr bool is_array_inside(std::uint64_t at, std::uint64_t count, std::uint64_t size,
                               std::size_t whole) {
  return at % size == 0 && at <= whole && count <= (whole - at) / size;
}

// Reads a T at offset `at`. The caller checks that it lies inside `bytes`.
template <class T>
inline T load(Bytes bytes, std::size_t at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Reads the 8 bytes at offset `at`. Bytes past the end read as zero.
inline std::uint64_t load_word(Bytes bytes, std::size_t at) {
  const std::size_t left = bytes.size() - at;
  if (left >= 8) return load<std::uint64_t>(bytes, at);
  std::uint64_t word = 0;
  if (left != 0) std::memcpy(&word, bytes.data() + at, left);
  return word;
}

// Writes a T at offset `at`. The caller checks that it lies inside `bytes`.
template <class T>
inline void store(MutableBytes bytes, std::size_t at, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace tio
