// Checks the pieces of records with steps: they lie in their records and have their checksums.
#pragma once

#include <string>
#include <vector>

#include "batch.h"
#include "example/step_pieces.h"
#include "require.h"
#include "wire/crc32c.h"

namespace tio::fuzz {

inline void require_pieces(const std::vector<std::string>& records, const PieceKeys& keys) {
  const test::Batch batch = test::apart(records);
  const StepPieces found = locate_pieces(batch.records, keys);
  require(found.counts.size() == records.size(), "a record has no number of pieces");
  std::size_t at = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Bytes record = batch.records[i];
    for (const std::size_t end = at + static_cast<std::size_t>(found.counts[i]); at < end; ++at) {
      const Piece& piece = found.pieces[at];
      require(is_inside(piece.offset, piece.size, record.size()), "a piece is outside");
      require(crc32c(record.subspan(piece.offset, piece.size)) == piece.crc, "another checksum");
    }
  }
  require(at == found.pieces.size(), "pieces of no record");
}

}  // namespace tio::fuzz
