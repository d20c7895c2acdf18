// Search for blocks of a deflate stream (RFC 1951) whose start is not known.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/bytes.h"

namespace tio {

// Returns the first bit from `begin` to `end` where a block can start that is not the last one of
// its stream: a block with Huffman codes of its own, whose whole header is valid, or a stored
// block. Nothing if there is none whose header lies in `data`.
//
// Random bits look like such a header about once in some megabytes, and like that of a stored block
// once in half a megabyte. So the caller tries whether a block starts there. Of blocks with the
// fixed codes only the stored blocks between them are found.
std::optional<std::uint64_t> find_deflate_block(Bytes data, std::uint64_t begin, std::uint64_t end);

}  // namespace tio
