// Writing of packed rows: values of documents, and what says which token belongs to which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/bytes.h"

namespace tio {

// Where pieces of documents go. Item i of each span describes piece i. The targets ascend, and what
// no piece covers is padding. A piece may end one token after its document: with a separator.
struct Placement {
  std::span<const std::int64_t> targets;  // first token in the rows, which follow one another
  std::span<const std::int64_t> sources;  // first token of the whole document in its source
  std::span<const std::int64_t> lengths;  // number of tokens of the whole document
  std::span<const std::int64_t> begins;   // first token of the piece in the document
  std::span<const std::int64_t> sizes;    // number of tokens of the piece

  // Returns whether all pieces lie inside of `source` and `total` tokens, one after another.
  bool is_valid(std::size_t source, std::size_t total) const;
};

// Copies items of `padding.size()` bytes each. A separator is written as `separator`, or if there
// is none, as the last item of its document. The placement is valid.
void write_values(const Placement& placement, Bytes source, Bytes padding,
                  std::optional<Bytes> separator, MutableBytes out);

// Writes which document of its row each token belongs to, from 1 on, and its position: in the
// document if `continues`, else in the piece. Both are 0 for padding. The placement is valid.
void write_marks(const Placement& placement, std::size_t length, bool continues,
                 std::span<std::int32_t> segments, std::span<std::int64_t> positions);

// Label of a token that has none.
inline constexpr std::int64_t kNoLabel = -100;

enum class Labels { same, next };

// Writes the label of each token: the token itself, or the next one of its document. The first
// token of a piece has no label in the one case, the last one of a document in the other.
// T is an integer. The placement is valid.
template <class T>
void write_labels(const Placement& placement, Labels labels, std::span<const T> source,
                  std::optional<std::int64_t> separator, std::span<std::int64_t> out);

}  // namespace tio
