// A file mapped to memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "wire/bytes.h"

namespace tio {

// A read-only map of the first bytes of a file. It stays valid when the descriptor is closed.
class MappedFile {
 public:
  // `size` is positive. On failure, is_open() is false and errno has the reason.
  MappedFile(int descriptor, std::size_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (memory != MAP_FAILED) memory_ = memory;
  }
  ~MappedFile() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  bool is_open() const { return memory_ != nullptr; }
  Bytes bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }

 private:
  void* memory_ = nullptr;
  std::size_t size_;
};

}  // namespace tio
