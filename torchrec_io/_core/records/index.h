// The .tfidx index of byte offsets. docs/index-format.md has the layout as a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/bytes.h"

namespace tio {

inline constexpr std::array<char, 8> kIndexSignature = {'\x89', 'T', 'F',  'I',
                                                        'D',    'X', '\r', '\n'};
inline constexpr std::size_t kIndexHeaderBytes = 80;

// Compression of a data file. The numbers are those of index files.
enum class Compression : std::uint32_t { none = 0, gzip = 1, zlib = 2 };

struct IndexHeader {
  std::uint32_t format = 0;  // code of the record format; 0 is TFRecord
  Compression compression = Compression::none;
  std::uint64_t data_bytes = 0;        // size of the data file
  std::int64_t data_mtime_ns = 0;      // modification time of the data file
  std::uint64_t data_fingerprint = 0;  // of the file's content; made and compared by the caller
  std::uint64_t stream_end = 0;        // end of the last record in the decompressed stream
  std::uint64_t records = 0;
  std::uint64_t restarts = 0;  // number of restart points
};

// A point where decompression can start.
struct Restart {
  std::uint64_t stream_offset = 0;  // in the decompressed stream
  std::uint64_t file_offset = 0;    // in the compressed file
};

// Serializes an index of the records that start at `starts`, which are ascending stream offsets.
// The counts in `header` are ignored.
std::vector<std::byte> encode_index(const IndexHeader& header,
                                    std::span<const std::uint64_t> starts,
                                    std::span<const Restart> restarts);

// Reads an index without copying it. Each access is checked, so a file that was damaged on purpose,
// with valid checksums, causes an error but never an invalid offset.
class IndexView {
 public:
  // Checks the header and the sizes, and with `check_body` the checksum of everything else. Returns
  // nothing, with a reason, if the file is not a valid index.
  static std::optional<IndexView> open(Bytes file, bool check_body, std::string& reason);

  const IndexHeader& header() const { return header_; }
  std::vector<Restart> restarts() const;

  // Prefetches the offset of a record. For scattered records, `locate` spends most of its time
  // waiting for it.
  void prefetch(std::uint64_t record) const {
    if (record < header_.records) __builtin_prefetch(&offsets_[record * 4]);
  }

  // Finds the stream offsets where a record starts and ends. Returns false if there is no such
  // record, or if its entry is damaged.
  bool locate(std::uint64_t record, std::uint64_t& start, std::uint64_t& end) const;

  // Does the same for many records. `starts` and `ends` have the size of `records`.
  bool locate(std::span<const std::int64_t> records, std::span<std::int64_t> starts,
              std::span<std::int64_t> ends) const;

 private:
  IndexView() = default;
  std::uint64_t start_of(std::uint64_t record) const;

  IndexHeader header_;
  std::uint32_t block_shift_ = 0;
  Bytes bases_;
  Bytes offsets_;
  Bytes restart_table_;
};

}  // namespace tio
