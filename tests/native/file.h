// A temporary file for code that reads descriptors.
#pragma once

#include <unistd.h>

#include <cstdio>

#include "check.h"
#include "wire/bytes.h"

namespace tio::test {

class File {
 public:
  explicit File(Bytes bytes) : file_(std::tmpfile()) {
    CHECK_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file_), bytes.size());
    std::fflush(file_);
  }
  File(const File&) = delete;
  ~File() { std::fclose(file_); }
  int fd() const { return fileno(file_); }

 private:
  std::FILE* file_;
};

}  // namespace tio::test
