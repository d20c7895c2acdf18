// The release of the GIL, safe in daemon threads while the interpreter exits.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>

namespace tio {

// Releases the GIL while it exists.
//
// A daemon thread that asks for the GIL of an interpreter that is finalizing is ended by Python
// before 3.14: its stack is unwound through C++ destructors, which aborts the process. So once the
// interpreter exits, daemon threads stay where they are, without the GIL.
class ReleasedGil {
 public:
  // Calls that take less time than other threads need to wake up pass false: the GIL stays.
  explicit ReleasedGil(bool is_long = true) noexcept;
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  bool is_daemon_;
  PyThreadState* state_;  // null if the GIL was not released
};

// Calls that handle fewer numbers or records than this, a few nanoseconds each, are not long.
inline constexpr std::size_t kManyNumbers = 2048;

// Releases the GIL during a call that needs no Python object.
using Unlocked = nanobind::call_guard<ReleasedGil>;

}  // namespace tio
