// The entry points of libFuzzer for a target that parses batches of records. Include it once.
//
// Input: a message of `repeated bytes record = 1`, or else any bytes as one record.
#pragma once

#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "check.h"
#include "wire_target.h"

namespace tio::fuzz {

// Runs the target.
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

}  // namespace tio::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it logs each key that is not UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  tio::fuzz::run(tio::fuzz::records_of(input));
  if (tio::test::failures != 0) std::abort();
  return 0;
}
