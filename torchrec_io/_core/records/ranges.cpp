#include "records/ranges.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace tio {
namespace {

// Reads a whole range: pread may return fewer bytes, or may be interrupted. Returns false if the
// file ends too early, or with an errno in `error`.
bool read_range(int descriptor, const Range& range, MutableBytes target, int& error) {
  std::size_t done = 0;
  while (done < target.size()) {
    const ssize_t got = pread(descriptor, target.data() + done, target.size() - done,
                              range.offset + static_cast<off_t>(done));
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      error = errno;
      return false;
    }
  }
  return true;
}

// Returns how often this thread gave up the processor voluntarily, as it does when it waits for the
// disk. If the system does not count that, each call counts as one.
std::uint64_t count_sleeps() {
#if defined(RUSAGE_THREAD)
  rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return static_cast<std::uint64_t>(usage.ru_nvcsw);
#endif
  static std::atomic<std::uint64_t> calls = 0;
  return calls++;
}

}  // namespace

ReadResult read_ranges(std::span<const int> descriptors, std::span<const Range> ranges,
                       std::span<const std::int64_t> bounds, MutableBytes buffer) {
  ReadResult result;
  const std::uint64_t before = count_sleeps();
  for (std::size_t file = 0; file < descriptors.size(); ++file) {
    const auto end = static_cast<std::size_t>(bounds[file + 1]);
    for (auto i = static_cast<std::size_t>(bounds[file]); i < end; ++i) {
      const Range& range = ranges[i];
      const auto target = buffer.subspan(static_cast<std::size_t>(range.target),
                                         static_cast<std::size_t>(range.size));
      if (read_range(descriptors[file], range, target, result.error)) continue;
      if (result.error == 0) result.truncated_range = i;
      result.waits = count_sleeps() - before;
      return result;
    }
  }
  result.waits = count_sleeps() - before;
  return result;
}

void advise_ranges(int descriptor, std::span<const Range> ranges) {
#if defined(POSIX_FADV_WILLNEED)
  for (const Range& range : ranges) {
    posix_fadvise(descriptor, range.offset, range.size, POSIX_FADV_WILLNEED);
  }
#else
  static_cast<void>(descriptor);
  static_cast<void>(ranges);
#endif
}

void copy_ranges(Bytes source, std::span<const Range> ranges, MutableBytes buffer) {
  for (const Range& range : ranges) {
    const auto size = static_cast<std::size_t>(range.size);
    const Bytes from = source.subspan(static_cast<std::size_t>(range.offset), size);
    const MutableBytes to = buffer.subspan(static_cast<std::size_t>(range.target), size);
    if (size != 0) std::memmove(to.data(), from.data(), size);
  }
}

}  // namespace tio
