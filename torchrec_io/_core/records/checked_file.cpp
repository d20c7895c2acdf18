#include "records/checked_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "wire/crc32c.h"

namespace tio {
namespace {

constexpr auto kChunk = static_cast<std::int64_t>(kChunkBytes);

// Small ranges are read with the chunks around them, by one request to the system.
constexpr std::size_t kScratchChunks = 8;

bool read_whole(int descriptor, std::int64_t offset, MutableBytes target) {
  std::size_t done = 0;
  while (done < target.size()) {
    const ssize_t got = pread(descriptor, target.data() + done, target.size() - done,
                              offset + static_cast<off_t>(done));
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

MutableBytes part(MutableBytes bytes, std::int64_t at, std::int64_t size) {
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

// Calls `work` with the number of a block, and the part of a range in it, whose offset is that in
// the block.
template <class Work>
void for_each_piece(std::span<const Range> ranges, std::int64_t block_bytes, const Work& work) {
  for (const Range& range : ranges) {
    std::int64_t done = 0;
    while (done < range.size) {
      const std::int64_t number = (range.offset + done) / block_bytes;
      const std::int64_t inside = (range.offset + done) % block_bytes;
      const std::int64_t taken = std::min(range.size - done, block_bytes - inside);
      work(number, Range{inside, taken, range.target + done});
      done += taken;
    }
  }
}

}  // namespace

// Reads whole chunks, the first of which begins at `begin`, and compares their checksums.
bool CheckedFile::read_chunks(std::int64_t begin, MutableBytes target) const {
  if (!read_whole(descriptor, begin, target)) return false;
  auto number = static_cast<std::size_t>(begin / kChunk);
  for (std::size_t at = 0; at < target.size(); at += kChunkBytes, ++number) {
    const std::size_t taken = std::min(kChunkBytes, target.size() - at);
    if (number >= checksums.size() || crc32c(target.subspan(at, taken)) != checksums[number]) {
      return false;
    }
  }
  return true;
}

bool CheckedFile::read(std::int64_t offset, MutableBytes target) const {
  const auto length = static_cast<std::int64_t>(target.size());
  if (size < 0 || !is_inside(offset, length, static_cast<std::size_t>(size))) return false;
  if (length == 0) return true;
  const std::int64_t end = offset + length;
  std::array<std::byte, kScratchChunks * kChunkBytes> memory;
  // Reads the chunks around [from, to), which are few, and copies what was asked for.
  const auto read_around = [&](std::int64_t from, std::int64_t to) {
    const std::int64_t first = from / kChunk * kChunk;
    const std::int64_t last = std::min(size, (to + kChunk - 1) / kChunk * kChunk);
    const MutableBytes scratch = part(memory, 0, last - first);
    if (!read_chunks(first, scratch)) return false;
    std::memcpy(part(target, from - offset, to - from).data(),
                part(scratch, from - first, to - from).data(), static_cast<std::size_t>(to - from));
    return true;
  };
  if (length <= static_cast<std::int64_t>(kScratchChunks - 2) * kChunk) {
    return read_around(offset, end);
  }
  const std::int64_t first = (offset + kChunk - 1) / kChunk * kChunk;
  const std::int64_t last = end == size ? end : end / kChunk * kChunk;
  return (first == offset || read_around(offset, first)) &&
         read_chunks(first, part(target, first - offset, last - first)) &&
         (last == end || read_around(last, end));
}

std::vector<std::uint32_t> chunk_checksums(Bytes bytes) {
  std::vector<std::uint32_t> checksums;
  checksums.reserve(count_chunks(bytes.size()));
  for (std::size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    checksums.push_back(crc32c(bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at))));
  }
  return checksums;
}

std::vector<std::int64_t> block_numbers(std::span<const Range> ranges, std::int64_t block_bytes) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(ranges.size());
  for_each_piece(ranges, block_bytes,
                 [&](std::int64_t number, const Range&) { numbers.push_back(number); });
  return numbers;
}

std::vector<std::size_t> read_blocks(std::span<const CheckedFile* const> files,
                                     std::span<const Range> ranges, std::int64_t block_bytes,
                                     MutableBytes buffer) {
  std::vector<std::size_t> failed;
  std::size_t position = 0;
  for_each_piece(ranges, block_bytes, [&](std::int64_t, const Range& piece) {
    if (position < files.size() &&
        !files[position]->read(piece.offset, part(buffer, piece.target, piece.size))) {
      failed.push_back(position);
    }
    ++position;
  });
  return failed;
}

}  // namespace tio
