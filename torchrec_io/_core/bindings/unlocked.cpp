#include "bindings/unlocked.h"

#ifndef _WIN32
#include <pthread.h>
#endif

#include <atomic>
#include <chrono>
#include <thread>

#include "bindings/bindings.h"

namespace tio {
namespace {

std::atomic<bool> is_exiting = false;
std::atomic<bool> had_daemons = false;
// Number of daemon threads that ask for the GIL and will get it before the interpreter finalizes.
std::atomic<int> asking = 0;

enum class Kind : char { kUnknown, kDaemon, kOther };
thread_local Kind kind = Kind::kUnknown;

// Whether the exit of the interpreter does not wait for this thread. Needs the GIL.
bool is_daemon() noexcept {
  if (kind == Kind::kUnknown) {
    try {
      const nb::object thread = nb::module_::import_("threading").attr("current_thread")();
      kind = nb::cast<bool>(thread.attr("daemon")) ? Kind::kDaemon : Kind::kOther;
      if (kind == Kind::kDaemon) had_daemons = true;
    } catch (...) {
      return false;
    }
  }
  return kind == Kind::kDaemon;
}

[[noreturn]] void wait_forever() noexcept {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Makes daemon threads stay outside of the interpreter: each waits forever when it leaves or enters
// native code. Returns when none asks for the GIL anymore, and whether any was in native code
// before.
bool stop_daemons() {
  kind = Kind::kOther;  // this thread finalizes the interpreter, even if a daemon thread forked it
  is_exiting = true;
  const nb::gil_scoped_release unlocked;
  while (asking > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return had_daemons;
}

}  // namespace

ReleasedGil::ReleasedGil(bool is_long) noexcept
    : is_daemon_(is_long && is_daemon()), state_(is_long ? PyEval_SaveThread() : nullptr) {
  if (is_daemon_ && is_exiting) wait_forever();
}

ReleasedGil::~ReleasedGil() {
  if (state_ == nullptr) return;
  if (!is_daemon_) {
    PyEval_RestoreThread(state_);
    return;
  }
  // stop_daemons() sees that this thread asks, or this thread sees that the interpreter exits.
  ++asking;
  if (is_exiting) {
    --asking;
    wait_forever();
  }
  PyEval_RestoreThread(state_);
  --asking;
}

void bind_exit(nb::module_& m) {
#ifndef _WIN32
  // The other threads of the parent do not exist in a child.
  pthread_atfork(nullptr, nullptr, [] { asking = 0; });
#endif
  m.def("stop_daemons", &stop_daemons);
  m.def("stay_if_exiting", [] {
    if (is_exiting) const ReleasedGil unlocked;
  });
  nb::module_::import_("atexit").attr("register")(m.attr("stop_daemons"));
}

}  // namespace tio
