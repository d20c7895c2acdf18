// The .tfidx index of byte offsets. docs/index-format.md has the layout as a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wire/bytes.h"

namespace tio {

inline constexpr std::array<char, 8> kIndexSignature = {'\x89', 'T', 'F',  'I',
                                                        'D',    'X', '\r', '\n'};
inline constexpr std::size_t kIndexHeaderBytes = 104;

// The table of offsets is read by pages of this many records.
inline constexpr std::size_t kPageRecords = 1024;
inline constexpr std::size_t kPageBytes = kPageRecords * 4;

// Compression of a data file. The numbers are those of index files.
enum class Compression : std::uint32_t { none = 0, gzip = 1, zlib = 2, zstd = 3 };

struct IndexHeader {
  std::uint32_t format = 0;  // code of the record format; 0 is TFRecord
  Compression compression = Compression::none;
  std::uint64_t data_bytes = 0;        // size of the data file
  std::int64_t data_mtime_ns = 0;      // modification time of the data file
  std::uint64_t data_fingerprint = 0;  // of the file's content; made and compared by the caller
  std::uint64_t stream_end = 0;        // end of the last record in the decompressed stream
  std::uint64_t header_bytes = 0;      // before the first record
  std::uint64_t footer_bytes = 0;      // after the last record and the gap that follows it
  std::uint64_t records = 0;
  std::uint64_t gaps = 0;        // number of gaps
  bool has_seek_points = false;  // whether seek points follow the offsets
};

// Reason why a part of a stream has no records. The numbers are those of index files.
enum class GapKind : std::uint64_t { damaged = 0, left_out = 1 };

// A part of the decompressed stream between two records, or at one end, without records. At the
// end it may be empty: the stream is damaged there, and the number of lost bytes is unknown.
struct Gap {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  GapKind kind = GapKind::damaged;
};

// Reads the header of an index file from its first `kIndexHeaderBytes` bytes. Returns the reason if
// it is not valid.
const char* read_index_header(Bytes head, IndexHeader& header);

// Serializes an index of the records that start at `starts`, which are ascending stream offsets.
// The counts in `header` are ignored. `seek_points` is a section that is made and read by callers;
// empty: there is none.
std::vector<std::byte> encode_index(const IndexHeader& header,
                                    std::span<const std::uint64_t> starts,
                                    std::span<const Gap> gaps = {}, Bytes seek_points = {});

// A part of an index file.
struct IndexRange {
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

// An index file that was checked once, from front to back. Its offsets are in memory, or remain in
// the file and are read by pages. Each page is compared with its checksum, and each access is
// checked: a file that changes later causes an error but never an invalid offset.
class Index {
 public:
  // Opens an index in memory and shares its owner. Returns nothing, with a reason, if the bytes are
  // not a valid index.
  static std::shared_ptr<Index> open(Bytes file, Owner owner, std::string& reason);

  const IndexHeader& header() const { return header_; }
  const std::vector<Gap>& gaps() const { return gaps_; }

  // Size of the decompressed stream. Every byte of it belongs to a record, a gap or an end.
  std::uint64_t stream_bytes() const { return stream_bytes_; }

  // Where the seek points are in the file; of size 0 if there are none.
  IndexRange seek_points() const { return seek_points_; }

  // The table of offsets; empty if it is not in memory.
  Bytes offsets() const { return offsets_; }

  std::size_t pages() const { return page_crcs_.size(); }
  IndexRange page_range(std::size_t page) const;
  bool is_page(std::size_t page, Bytes bytes) const;

  // Finds the stream offsets where a record starts and ends, given the entry of the record and that
  // of the next record, which the last record does not need. Returns false if they contradict the
  // index.
  bool locate(std::uint64_t record, const std::byte* entry, const std::byte* next,
              std::uint64_t& start, std::uint64_t& end) const;

 private:
  friend class IndexScan;

  std::uint64_t start_of(std::uint64_t record, const std::byte* entry) const {
    return bases_[record >> block_shift_] + load<std::uint32_t>({entry, 4}, 0);
  }

  IndexHeader header_;
  std::uint32_t block_shift_ = 0;
  std::uint64_t offsets_at_ = 0;  // in the file
  std::uint64_t stream_bytes_ = 0;
  IndexRange seek_points_;
  std::vector<Gap> gaps_;
  std::vector<std::uint64_t> bases_;
  std::vector<std::uint32_t> page_crcs_;
  Bytes offsets_;
  Owner owner_;  // of `offsets_`
};

// Checks an index file that is read from front to back in pieces of any size.
class IndexScan {
 public:
  explicit IndexScan(std::uint64_t file_bytes) : file_bytes_(file_bytes) {}

  // Takes the next bytes of the file. Returns false if the file is not valid; see `finish`.
  bool add(Bytes bytes);

  // Returns the index, without its offsets; nothing, with a reason, if the file is not valid.
  std::shared_ptr<Index> finish(std::string& reason);

 private:
  bool fail(const char* reason);
  void add_to_head(Bytes& bytes);
  bool read_header();
  bool read_tables();
  void add_offsets(Bytes bytes);
  void add_seek_points(Bytes bytes);
  void check_page(Bytes page);
  bool check_next(std::uint64_t start);
  bool check_end();

  std::uint64_t file_bytes_;
  Index index_;
  const char* reason_ = nullptr;
  const char* fault_ = nullptr;  // of the body; reported only if its checksum is right
  std::vector<std::byte> head_;  // the header and the tables before the offsets
  std::size_t head_bytes_ = kIndexHeaderBytes;
  bool has_header_ = false;
  std::vector<std::byte> page_;  // the start of a page
  std::uint64_t offsets_left_ = 0;
  std::uint64_t seek_bytes_left_ = 0;
  std::uint32_t body_crc_ = 0;
  std::uint32_t found_crc_ = 0;
  std::uint64_t least_frame_bytes_ = 0;
  // The records so far.
  bool has_record_ = false;
  std::uint64_t last_start_ = 0;
  std::size_t gaps_passed_ = 0;
};

}  // namespace tio
