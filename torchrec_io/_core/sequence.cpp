#include "sequence.h"

namespace tio::sequence_detail {

bool read_field(Bytes record, std::size_t& at, std::size_t limit, bool& is_step, Location& step) {
  Cursor cursor(record.subspan(at, limit - at));
  std::uint32_t tag = 0;
  Bytes feature;
  if (!cursor.read_tag(tag)) return false;
  is_step = tag == feature_detail::kRepeatedTag;
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
