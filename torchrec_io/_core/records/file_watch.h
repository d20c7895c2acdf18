// Notices that an open file is changed in place while it is read.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace tio {

// An open file, with its size and modification time when it was opened.
struct FileWatch {
  int descriptor = -1;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;

  // Returns whether the file was written since, or its status cannot be read. Other changes of the
  // status do not count: a file that is renamed or removed keeps its content.
  bool is_changed() const {
    struct stat now{};
    if (fstat(descriptor, &now) != 0) return true;
#if defined(__APPLE__)
    const timespec& time = now.st_mtimespec;
#else
    const timespec& time = now.st_mtim;
#endif
    return static_cast<std::int64_t>(now.st_size) != size ||
           static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
                   static_cast<std::uint64_t>(time.tv_nsec) !=
               static_cast<std::uint64_t>(mtime_ns);
  }

  // Returns the present size of the file; -1 if that is unknown.
  std::int64_t present_size() const {
    struct stat now{};
    return fstat(descriptor, &now) == 0 ? static_cast<std::int64_t>(now.st_size) : -1;
  }
};

}  // namespace tio
