// The pieces of records whose feature lists have a value for each step: parts of the encoded
// messages of which a smaller message, with some of the steps, can be made again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "records/records.h"

namespace tio {

// A stored feature with a value for each step.
struct StepKey {
  std::string key;
  std::uint32_t item_bytes = 0;  // of a step in a packed list of floats; 0 for other features
};

// The stored features of which pieces are located. The steps of a SequenceExample are those of its
// feature lists, those of an Example the values of its features.
struct PieceKeys {
  std::vector<std::string> context;  // features that are one piece
  std::vector<std::string> lists;    // feature lists that are one piece
  std::vector<StepKey> steps;        // features, or feature lists, with a piece for each step
  bool in_lists = false;             // whether `steps` are feature lists
};

struct Piece {
  std::uint32_t offset = 0;  // in the record, which is smaller than 2 GiB
  std::uint32_t size = 0;    // 0 if the record lacks the feature
  std::uint32_t crc = 0;     // CRC-32C
};

// The pieces of some records, one record after another: first an entry of the map for each key of
// `context` and `lists`, then the steps of each key of `steps`, with the tags and lengths of bytes
// values and of the steps of lists.
struct StepPieces {
  std::vector<std::int64_t> counts;  // of each record; 0 if it is encoded in an unusual way
  std::vector<Piece> pieces;
};

// A record has no pieces if it is invalid, has a feature twice or in several parts, lacks a feature
// of `steps`, or has different numbers of steps.
StepPieces locate_pieces(const Records& records, const PieceKeys& keys);

}  // namespace tio
