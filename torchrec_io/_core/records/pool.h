// Memory for batches, kept for the next batch once nobody holds it any more.
//
// A batch of megabytes that malloc takes from the system and gives back costs a page fault for each
// 4 KiB, more than decoding what goes there (benchmarks/README.md). Memory comes back here only
// when the last view of it is gone, so reuse is never seen.
#pragma once

#include <cstddef>

namespace tio::pool {

// At least `size` bytes, aligned to 64, of any content. Throws std::bad_alloc.
void* take(std::size_t size);

// Gives back what `take(size)` gave.
void give_back(void* memory, std::size_t size) noexcept;

// Bytes kept for reuse at present; 0 where another thread is busy with them.
std::size_t kept_bytes();

}  // namespace tio::pool
