#include "memory/mapped_file.h"

#include <sys/mman.h>

namespace tio {

MappedFile::MappedFile(int descriptor, std::size_t size) : size_(size) {
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory != MAP_FAILED) memory_ = memory;
}

MappedFile::~MappedFile() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

}  // namespace tio
