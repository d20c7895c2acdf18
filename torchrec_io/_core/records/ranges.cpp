#include "records/ranges.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
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
// disk.
std::int64_t count_sleeps() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

// Ranges that are announced to the system together.
constexpr std::size_t kAnnouncedRanges = 64;

// Announces ranges before they are read, if the ones before them had to be waited for: for data in
// memory, that costs as much as reading it.
class Announcer {
 public:
  Announcer(std::span<const int> descriptors, std::span<const Range> ranges,
            std::span<const std::int64_t> bounds)
      : descriptors_(descriptors), ranges_(ranges), bounds_(bounds), sleeps_(count_sleeps()) {}

  // Called before each range is read.
  void before(std::size_t range) {
    if (range < next_) return;
    if (range > 0) note_waits();
    // The first range alone shows whether those after it would wait.
    next_ = range + (waited_ || range > 0 ? kAnnouncedRanges : 1);
    if (waited_) announce(range, std::min(next_, static_cast<std::size_t>(bounds_.back())));
  }

  void end() { note_waits(); }

 private:
  void note_waits() {
    const std::int64_t sleeps = count_sleeps();
    waited_ = sleeps != sleeps_;
    sleeps_ = sleeps;
  }

  void announce(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      while (i >= static_cast<std::size_t>(bounds_[file_ + 1])) ++file_;
      posix_fadvise(descriptors_[file_], ranges_[i].offset, ranges_[i].size, POSIX_FADV_WILLNEED);
    }
  }

  std::span<const int> descriptors_;
  std::span<const Range> ranges_;
  std::span<const std::int64_t> bounds_;
  std::int64_t sleeps_;
  std::size_t next_ = 0;  // range before which it is decided again
  std::size_t file_ = 0;  // of the last announced range
  static thread_local bool waited_;
};

thread_local bool Announcer::waited_ = false;

}  // namespace

ReadResult read_ranges(std::span<const int> descriptors, std::span<const Range> ranges,
                       std::span<const std::int64_t> bounds, MutableBytes buffer) {
  ReadResult result;
  Announcer announcer(descriptors, ranges, bounds);
  for (std::size_t file = 0; file < descriptors.size(); ++file) {
    const auto end = static_cast<std::size_t>(bounds[file + 1]);
    for (auto i = static_cast<std::size_t>(bounds[file]); i < end; ++i) {
      const Range& range = ranges[i];
      const auto target = buffer.subspan(static_cast<std::size_t>(range.target),
                                         static_cast<std::size_t>(range.size));
      announcer.before(i);
      if (read_range(descriptors[file], range, target, result.error)) continue;
      if (result.error == 0) result.truncated_range = i;
      return result;
    }
  }
  announcer.end();
  return result;
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
