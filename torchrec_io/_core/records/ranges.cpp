#include "records/ranges.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

namespace tio {
namespace {

// pread may give less than was asked for, and may be interrupted.
int read_range(int fd, const Range& range, MutableBytes target) {
  std::size_t done = 0;
  while (done < target.size()) {
    const ssize_t got = pread(fd, target.data() + done, target.size() - done,
                              range.offset + static_cast<off_t>(done));
    if (got == 0) return -1;
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// How often this thread gave up the processor by itself, as it does until the disk has answered;
// not how often it was interrupted. Where that is not known, more each time.
std::uint64_t count_sleeps() {
#if defined(RUSAGE_THREAD)
  rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return static_cast<std::uint64_t>(usage.ru_nvcsw);
#endif
  static std::atomic<std::uint64_t> calls = 0;
  return calls++;
}

// Where a number stands among ascending ones; behind the last if it is not there.
std::size_t find(std::span<const std::int64_t> ascending, std::int64_t number) {
  const auto at = std::ranges::lower_bound(ascending, number);
  if (at == ascending.end() || *at != number) return ascending.size();
  return static_cast<std::size_t>(at - ascending.begin());
}

// The same; at once where numbers follow each other.
std::size_t find_near(std::span<const std::int64_t> ascending, std::int64_t number) {
  if (!ascending.empty() && number >= ascending.front() && number <= ascending.back()) {
    const auto guess =
        static_cast<std::uint64_t>(number) - static_cast<std::uint64_t>(ascending.front());
    if (guess < ascending.size() && ascending[guess] == number) return guess;
  }
  return find(ascending, number);
}

// The part of some bytes; nothing if it does not lie inside.
template <class T>
std::optional<std::span<T>> part_of(std::span<T> bytes, std::int64_t at, std::int64_t size) {
  const auto end = static_cast<std::int64_t>(bytes.size());
  if (at < 0 || size < 0 || at > end || size > end - at) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

}  // namespace

Reading read_ranges(std::span<const int> fds, std::span<const std::int64_t> cuts,
                    std::span<const Range> ranges, MutableBytes buffer) {
  Reading reading;
  const std::uint64_t before = count_sleeps();
  for (std::size_t file = 0; file < fds.size() && reading.error == 0; ++file) {
    const auto end = static_cast<std::size_t>(cuts[file + 1]);
    for (auto i = static_cast<std::size_t>(cuts[file]); i < end && reading.error == 0; ++i) {
      const Range& range = ranges[i];
      const auto target = buffer.subspan(static_cast<std::size_t>(range.place),
                                         static_cast<std::size_t>(range.size));
      reading.error = read_range(fds[file], range, target);
      reading.failed = i;
    }
  }
  reading.waits = count_sleeps() - before;
  return reading;
}

void advise_ranges(int fd, std::span<const Range> ranges) {
#if defined(POSIX_FADV_WILLNEED)
  for (const Range& range : ranges) {
    posix_fadvise(fd, range.offset, range.size, POSIX_FADV_WILLNEED);
  }
#else
  static_cast<void>(fd);
  static_cast<void>(ranges);
#endif
}

void copy_ranges(Bytes source, std::span<const Range> ranges, MutableBytes buffer) {
  for (const Range& range : ranges) {
    const auto size = static_cast<std::size_t>(range.size);
    const Bytes from = source.subspan(static_cast<std::size_t>(range.offset), size);
    const MutableBytes to = buffer.subspan(static_cast<std::size_t>(range.place), size);
    if (size != 0) std::memmove(to.data(), from.data(), size);
  }
}

std::size_t copy_frames(std::span<const FrameBlock> blocks, std::span<const std::int64_t> names,
                        const WantedFrames& wanted, MutableBytes buffer) {
  for (std::size_t i = 0; i < wanted.numbers.size(); ++i) {
    const std::size_t which = find_near(names, wanted.blocks[i]);
    if (which == names.size()) continue;
    const FrameBlock& block = blocks[which];
    const std::size_t at = find_near(block.numbers, wanted.numbers[i]);
    if (at == block.numbers.size() || block.sizes[at] != wanted.sizes[i]) return i;
    const auto from = part_of(block.buffer, block.placed[at], wanted.sizes[i]);
    const auto to = part_of(buffer, wanted.placed[i], wanted.sizes[i]);
    if (!from || !to) return i;
    if (!from->empty()) std::memcpy(to->data(), from->data(), from->size());
  }
  return wanted.numbers.size();
}

}  // namespace tio
