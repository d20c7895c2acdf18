// libFuzzer's entry points, for a target that takes batches of records. To be included once.
//
// Input: a message of `repeated bytes record = 1`, or else any bytes as one record.
#pragma once

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "mutate.h"

namespace tio::fuzz {

// The target.
void run(const std::vector<std::string>& records);

inline std::vector<std::string> records_of(const std::string& input) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> records;
  const auto fields = split(input);
  if (!fields) return {input};
  for (const auto& field : *fields) {
    if (field.tag != "\x0a") return {input};
    if (records.size() < kMost) records.push_back(field.payload);
  }
  return records;
}

inline std::size_t give(const std::string& bytes, std::uint8_t* data, std::size_t max_size) {
  const std::size_t size = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), size);
  return size;
}

}  // namespace tio::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it reports each key that is not UTF-8
  return 0;
}

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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  tio::fuzz::run(tio::fuzz::records_of(input));
  if (tio::test::failures != 0) std::abort();
  return 0;
}
