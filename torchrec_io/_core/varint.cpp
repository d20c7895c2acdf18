#include "varint.h"

#include "cursor.h"

namespace tio {
namespace {

constexpr std::uint64_t kContinue = 0x8080808080808080U;

// GCC and Clang turn this into the vector instructions of whatever processor they build for.
using Narrow = std::uint8_t __attribute__((vector_size(8)));
using Wide = std::int64_t __attribute__((vector_size(64)));

// Widens eight one-byte values at once.
inline void widen(std::uint64_t word, std::int64_t* out) {
  Narrow narrow;
  std::memcpy(&narrow, &word, sizeof(narrow));
  const Wide wide = __builtin_convertvector(narrow, Wide);
  std::memcpy(out, &wide, sizeof(wide));
}

}  // namespace

bool count_varints(Bytes packed, std::uint64_t& count) {
  count = 0;
  std::size_t at = 0;
  for (; packed.size() - at >= 8; at += 8) {
    const auto ends = ~load<std::uint64_t>(packed, at) & kContinue;
    count += static_cast<std::uint64_t>(__builtin_popcountll(ends));
  }
  for (; at < packed.size(); ++at) count += load<std::uint8_t>(packed, at) < 0x80;
  return packed.empty() || load<std::uint8_t>(packed, packed.size() - 1) < 0x80;
}

bool VarintReader::read_one(std::int64_t& out) {
  Cursor cursor(packed_.subspan(at_));
  std::uint64_t value = 0;
  if (!cursor.read_varint(value)) {
    bad_ = true;
    return false;
  }
  at_ += cursor.position();
  out = static_cast<std::int64_t>(value);
  return true;
}

std::size_t VarintReader::read(std::int64_t* out, std::size_t most) {
  std::size_t done = 0;
  // Eight bytes at a time: write all as if each were a value, keep those before the first long one.
  while (most - done >= 8 && packed_.size() - at_ >= 8) {
    const auto word = load<std::uint64_t>(packed_, at_);
    widen(word, out + done);
    const std::uint64_t longer = word & kContinue;
    if (longer == 0) {
      done += 8;
      at_ += 8;
      continue;
    }
    const auto shorts = static_cast<std::size_t>(__builtin_ctzll(longer)) / 8;
    done += shorts;
    at_ += shorts;
    const std::uint64_t rest = word >> (8 * shorts);
    if (shorts < 7 && (rest & 0x8000) == 0) {  // two bytes, both in `word`: the common long value
      out[done++] = static_cast<std::int64_t>((rest & 0x7f) | (rest >> 1 & 0x3f80));
      at_ += 2;
    } else if (!read_one(out[done])) {
      return done;
    } else {
      ++done;
    }
  }
  while (done < most && at_ < packed_.size()) {
    if (!read_one(out[done])) return done;
    ++done;
  }
  return done;
}

}  // namespace tio
