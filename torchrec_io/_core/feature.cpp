#include "feature.h"

namespace tio {
namespace {

bool count_chunk(Bytes payload, Kind kind, ValueCount& count) {
  std::uint64_t values = 1;
  if (kind == Kind::ints) {
    if (!count_varints(payload, values)) return false;
  } else if (kind == Kind::floats) {
    if (payload.size() % 4 != 0) return false;
    values = payload.size() / 4;
  } else {
    count.bytes += payload.size();
  }
  count.values += values;
  return true;
}

// Reads every value of a list that nobody will decode.
bool check_list(Bytes list, Kind kind) {
  return feature_detail::walk_list(list, kind, [kind](Bytes payload) {
    if (kind != Kind::ints) {
      ValueCount count;
      return count_chunk(payload, kind, count);
    }
    Cursor cursor(payload);
    std::uint64_t value = 0;
    while (!cursor.done()) {
      if (!cursor.read_varint(value)) return false;
    }
    return true;
  });
}

}  // namespace

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::bytes: return "bytes";
    case Kind::floats: return "float";
    case Kind::ints: return "int64";
    case Kind::none: break;
  }
  return "no";
}

bool settle_kind(Bytes entry, Kind& kind, std::size_t& first_list) {
  kind = Kind::none;
  first_list = 0;
  std::size_t number = 0;
  return feature_detail::walk_kinds(entry, [&](Kind seen, Bytes list) {
    if (seen != kind) {
      kind = seen;
      first_list = number;
    }
    ++number;
    return check_list(list, seen);
  });
}

bool count_values(Bytes buffer, const Location& at, ValueCount& count) {
  count = {};
  return visit_values(buffer, at,
                      [&](Bytes payload) { return count_chunk(payload, at.kind, count); });
}

}  // namespace tio
