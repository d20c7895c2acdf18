// The release of the GIL, safe in daemon threads while the interpreter exits.
#pragma once

#include <nanobind/nanobind.h>

namespace tio {

// Releases the GIL while it exists.
//
// A daemon thread that asks for the GIL of an interpreter that is finalizing is ended by Python
// before 3.14: its stack is unwound through C++ destructors, which aborts the process. So once the
// interpreter exits, daemon threads stay where they are, without the GIL.
class ReleasedGil {
 public:
  ReleasedGil() noexcept;
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  bool is_daemon_;
  PyThreadState* state_;
};

// Releases the GIL during a call that needs no Python object.
using Unlocked = nanobind::call_guard<ReleasedGil>;

}  // namespace tio
