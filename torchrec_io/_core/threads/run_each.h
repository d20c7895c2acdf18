// Sharing out the items of one piece of work among threads, which are kept for the next one.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace tio {

// Calls a function with each number below `count`, in this thread and up to `threads - 1` others.
// Each thread takes one item after another, so that all end at about the same time. Several calls
// may run at once: threads then help the first of them that has items left. Returns when all calls
// have ended, with the time that the other threads took for them. If one throws, no further items
// are begun, and the first exception is thrown again.
//
// A forked child has none of its parent's threads, and starts its own.
std::chrono::nanoseconds run_each(std::size_t count, std::size_t threads,
                                  const std::function<void(std::size_t item)>& work);

}  // namespace tio
