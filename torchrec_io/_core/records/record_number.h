// Numbers of records in an epoch, in which a record may come several times.
#pragma once

#include <cstdint>

namespace tio {

// The lowest bits of a number are the record's own number. Those above, up to the sign, are its
// repetition: they differ where a record comes again in an epoch. See _records/repetitions.py.
inline constexpr int kRecordBits = 40;
inline constexpr std::int64_t kMostRecords = std::int64_t{1} << kRecordBits;

// Returns a record's own number. A negative number stays negative.
constexpr std::int64_t own_number(std::int64_t number) {
  return number < 0 ? number : number & (kMostRecords - 1);
}

}  // namespace tio
