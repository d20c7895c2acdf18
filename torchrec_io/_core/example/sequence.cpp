#include "example/sequence.h"

namespace tio::sequence_detail {

// All lengths of such a step follow from its own length L:
//
//   step L | kind L-2 | value L-4 | values
//
// These six bytes, each tag and length one byte, are compared at once.
std::size_t find_run(Bytes record, std::size_t at, std::size_t limit, StepRun& run) {
  constexpr std::uint64_t kSixBytes = 0xffffffffffffU;
  const std::uint64_t kind_tag = wire::tag(static_cast<std::uint32_t>(run.kind), wire::delimited);
  // The six bytes without L in each length.
  const std::uint64_t rest = fields::kStep + (kind_tag << 16) +
                             (std::uint64_t{fields::kListValue} << 32) - (std::uint64_t{2} << 24) -
                             (std::uint64_t{4} << 40);
  std::size_t count = 0;
  // Eight bytes must be loadable after the header of the shortest step.
  while (count < StepRun::kMaxSteps && limit - at >= 6 && record.size() - at >= 14) {
    const auto word = load<std::uint64_t>(record, at);
    const std::uint64_t length = word >> 8 & 0xff;
    if (((word ^ (rest + length * 0x010001000100U)) & kSixBytes) != 0) break;
    if (length - 4 >= 0x80 - 4 || length > limit - at - 2) break;
    run.offsets[count] = static_cast<std::uint32_t>(at + 6);
    run.sizes[count] = static_cast<std::uint8_t>(length - 4);
    ++count;
    at += 2 + length;
  }
  run.count = count;
  return at;
}

bool read_field(Bytes record, std::size_t& at, std::size_t limit, bool& is_step, Location& step) {
  Cursor cursor(record.subspan(at, limit - at));
  std::uint32_t tag = 0;
  Bytes feature;
  if (!cursor.read_tag(tag)) return false;
  is_step = tag == fields::kStep;
  if (!is_step) {
    if (!wire::skip_field(cursor, tag)) return false;
  } else if (!cursor.read_delimited(feature) ||
             !locate_feature(feature, at + cursor.position() - feature.size(), step)) {
    return false;
  }
  at += cursor.position();
  return true;
}

}  // namespace tio::sequence_detail
