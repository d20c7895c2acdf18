#include "example/feature.h"

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

bool check_chunk(Bytes payload, Kind kind) {
  if (kind != Kind::ints) {
    ValueCount count;
    return count_chunk(payload, kind, count);
  }
  VarintReader reader(payload);
  std::int64_t scratch[16];
  while (!reader.done() && !reader.bad()) reader.read(scratch, 16);
  return !reader.bad();
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

bool locate_simple_feature(Bytes feature, std::size_t at, Location& location) {
  Cursor cursor(feature);
  std::uint32_t tag = 0;
  Bytes list;
  Bytes payload;
  if (feature.empty()) {
    location = {static_cast<std::uint32_t>(at), 0, Form::missing, Kind::none};
    return true;
  }
  if (!cursor.read_tag(tag)) return false;
  const Kind kind = feature_detail::kind_of_tag(tag);
  if (kind == Kind::none || !cursor.read_delimited(list) || !cursor.done()) return false;
  if (list.empty()) {
    location = {static_cast<std::uint32_t>(at), 0, Form::empty, kind};
    return true;
  }
  Cursor values(list);
  if (!values.read_tag(tag) || tag != fields::kListValue || !values.read_delimited(payload) ||
      !values.done()) {
    return false;
  }
  location = {static_cast<std::uint32_t>(at + feature.size() - payload.size()),
              static_cast<std::uint32_t>(payload.size()), Form::single, kind};
  return true;
}

bool locate_feature(Bytes feature, std::size_t at, Location& location) {
  if (locate_simple_feature(feature, at, location)) return true;
  const Location whole{0, static_cast<std::uint32_t>(feature.size()), Form::feature, Kind::none};
  location = whole;
  std::size_t first = 0;
  if (!resolve_kind(feature, whole, location.kind, first)) return false;
  location.offset = static_cast<std::uint32_t>(at);
  if (location.kind == Kind::none) location.form = Form::missing;
  return true;
}

bool resolve_kind(Bytes record, const Location& at, Kind& kind, std::size_t& first_list) {
  kind = Kind::none;
  first_list = 0;
  std::size_t number = 0;
  return feature_detail::walk_kinds(record, at, [&](Kind seen, Bytes list) {
    if (seen != kind) {
      kind = seen;
      first_list = number;
    }
    ++number;
    return feature_detail::walk_list(list, seen,
                                     [seen](Bytes payload) { return check_chunk(payload, seen); });
  });
}

bool count_values(Bytes record, Location at, ValueCount& count) {
  count = {};
  return visit_values(record, at,
                      [&](Bytes payload) { return count_chunk(payload, at.kind, count); });
}

bool check_values(Bytes record, Location at) {
  return visit_values(record, at, [&](Bytes payload) { return check_chunk(payload, at.kind); });
}

}  // namespace tio
