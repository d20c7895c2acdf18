// Memory for batches, which is kept for the next batch after its last reference is gone.
//
// Without a pool, malloc takes megabytes from the system for each batch and returns them. That
// costs a page fault for every 4 KiB, more time than decoding the data (benchmarks/README.md). So
// large blocks have huge pages where the system has them, and memory is kept: at most 128 MiB, and
// while blocks are in use two more of the largest. Blocks of sizes that were not used for the
// longest time make room for others.
#pragma once

#include <cstddef>

namespace tio::pool {

// Returns at least `size` uninitialized bytes, aligned to 64 bytes. Throws std::bad_alloc.
void* allocate(std::size_t size);

// Returns the memory of `allocate(size)` to the pool.
void release(void* memory, std::size_t size) noexcept;

// Returns the number of bytes that are kept for reuse, or 0 if another thread is using the pool.
std::size_t kept_bytes();

}  // namespace tio::pool
