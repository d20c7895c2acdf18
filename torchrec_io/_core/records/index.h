// The .tfidx byte-offset index: see docs/index-format.md for the layout as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/bytes.h"

namespace tio {

struct IndexHeader {
  std::uint32_t format = 0;       // how the data file splits into records; 0 is TFRecord
  std::uint32_t compression = 0;  // 0 none, 1 gzip, 2 zlib
  std::uint64_t count = 0;        // records
  std::uint64_t data_bytes = 0;   // size of the data file as it lies on disk
  std::int64_t data_mtime_ns = 0;
  std::uint64_t data_fingerprint = 0;  // of the file's content; made and compared by the caller
  std::uint64_t stream_end = 0;        // where the last record ends, in the decompressed stream
  std::uint64_t restarts = 0;          // places where decompression can start
};

struct Restart {
  std::uint64_t stream_offset = 0;  // in the decompressed stream
  std::uint64_t file_offset = 0;    // in the compressed file
};

// Serialises an index of records that start at `starts` (ascending stream offsets).
std::vector<std::byte> encode_index(const IndexHeader& header,
                                    std::span<const std::uint64_t> starts,
                                    std::span<const Restart> restarts);

// Reads an index without copying it. Every answer is checked against the bytes that are there, so a
// file that was damaged on purpose (checksums and all) gives an error and no wild offset.
class IndexView {
 public:
  // Checks the header and the sizes; `check_body` also the checksum over everything else.
  static std::optional<IndexView> open(Bytes file, bool check_body, std::string& reason);

  const IndexHeader& header() const { return header_; }
  std::vector<Restart> restarts() const;

  // Has memory bring what `locate` looks at, which for records here and there takes most of its
  // time.
  void prefetch(std::uint64_t record) const {
    if (record < header_.count) __builtin_prefetch(&offsets_[record * 4]);
  }

  // Stream offsets of the start and the end of a record. False: no such record, or a damaged entry.
  bool locate(std::uint64_t record, std::uint64_t& start, std::uint64_t& end) const;

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
