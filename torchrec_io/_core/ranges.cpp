#include "ranges.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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

}  // namespace

int read_ranges(int fd, std::span<const Range> ranges, MutableBytes buffer, std::size_t& failed) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Range& range = ranges[i];
    const auto target =
        buffer.subspan(static_cast<std::size_t>(range.place), static_cast<std::size_t>(range.size));
    if (const int error = read_range(fd, range, target)) {
      failed = i;
      return error;
    }
  }
  return 0;
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

}  // namespace tio
