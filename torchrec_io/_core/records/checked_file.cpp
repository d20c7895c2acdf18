#include "records/checked_file.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "wire/crc32c.h"

namespace tio {
namespace {

constexpr auto kChunkSize = static_cast<std::int64_t>(kChunkBytes);

// Reads parts that follow each other in a file, and fills all of them. Returns false if the file
// ends too early or cannot be read.
template <std::size_t kParts>
bool read_parts(int descriptor, std::int64_t offset, std::array<iovec, kParts> parts) {
  std::size_t first = 0;
  while (first < kParts) {
    const ssize_t got = preadv(descriptor, parts.data() + first, static_cast<int>(kParts - first),
                               static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += got;
    auto left = static_cast<std::size_t>(got);
    for (; first < kParts && left >= parts[first].iov_len; ++first) left -= parts[first].iov_len;
    if (left > 0) {
      parts[first].iov_base = static_cast<std::byte*>(parts[first].iov_base) + left;
      parts[first].iov_len -= left;
    }
  }
  return true;
}

iovec as_iovec(MutableBytes bytes) { return {bytes.data(), bytes.size()}; }

MutableBytes part(MutableBytes bytes, std::int64_t at, std::int64_t size) {
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

}  // namespace

// Chunks are compared whole, so the rest of the first and the last one is read, too: by the same
// request, to memory beside the target.
bool CheckedFile::read(std::int64_t offset, MutableBytes target) const {
  const auto length = static_cast<std::int64_t>(target.size());
  if (size < 0 || !is_inside(offset, length, static_cast<std::size_t>(size))) return false;
  if (length == 0) return true;
  const std::int64_t end = offset + length;
  const std::int64_t first = offset / kChunkSize * kChunkSize;
  const std::int64_t last = std::min(size, end + (kChunkSize - end % kChunkSize) % kChunkSize);
  std::array<std::byte, kChunkBytes> before;
  std::array<std::byte, kChunkBytes> after;
  const MutableBytes head = part(before, 0, offset - first);
  const MutableBytes tail = part(after, 0, last - end);
  const std::array<iovec, 3> parts = {as_iovec(head), as_iovec(target), as_iovec(tail)};
  return read_parts(descriptor, first, parts) &&
         is_valid(static_cast<std::size_t>(first / kChunkSize), head, target, tail);
}

// Returns whether the chunks from number `first` on, which consist of three parts, have their
// checksums. The first part is less than a chunk.
bool CheckedFile::is_valid(std::size_t first, Bytes head, Bytes target, Bytes tail) const {
  std::uint32_t crc = crc32c(head);
  std::size_t room = kChunkBytes - head.size();
  std::size_t number = first;
  for (const Bytes bytes : {target, tail}) {
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t taken = std::min(room, bytes.size() - at);
      crc = crc32c(bytes.subspan(at, taken), crc);
      at += taken;
      room -= taken;
      if (room > 0) continue;
      if (number >= checksums.size() || crc != checksums[number]) return false;
      ++number;
      crc = 0;
      room = kChunkBytes;
    }
  }
  // The last chunk of the file may be short.
  return room == kChunkBytes || (number < checksums.size() && crc == checksums[number]);
}

std::vector<std::uint32_t> chunk_checksums(Bytes bytes) {
  std::vector<std::uint32_t> checksums;
  checksums.reserve(count_chunks(bytes.size()));
  for (std::size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    checksums.push_back(crc32c(bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at))));
  }
  return checksums;
}

bool read_checked(const CheckedFile& file, std::span<const Range> ranges, MutableBytes buffer) {
  return std::ranges::all_of(ranges, [&](const Range& range) {
    return file.read(range.offset, part(buffer, range.target, range.size));
  });
}

}  // namespace tio
