// The mutation of inputs that are protobuf messages, for libFuzzer. Include it once per target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "mutate.h"

namespace tio::fuzz {

inline std::size_t give(const std::string& bytes, std::uint8_t* data, std::size_t max_size) {
  const std::size_t size = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), size);
  return size;
}

}  // namespace tio::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string mutated = tio::fuzz::WireMutator(seed).mutate(input, max_size);
  return tio::fuzz::give(mutated, data, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned seed) {
  const std::string message(reinterpret_cast<const char*>(first), first_size);
  const std::string other(reinterpret_cast<const char*>(second), second_size);
  return tio::fuzz::give(tio::fuzz::WireMutator(seed).cross(message, other), out, max_size);
}
