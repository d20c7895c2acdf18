#include "example/explain.h"

#include "example/feature.h"
#include "example/fields.h"
#include "example/parser.h"
#include "wire/cursor.h"
#include "wire/field_walk.h"

namespace tio {
namespace {

class Walk {
 public:
  Walk(const ExampleParser& parser, Bytes record) : parser_(parser), record_(record) {}

  bool record() {
    return walk(record_, [&](std::uint32_t tag, Bytes content) {
      if (tag == fields::kContext) return map(content, false);
      if (tag == fields::kFeatureLists && parser_.has_lists()) return map(content, true);
      return true;
    });
  }

  const Fault& fault() const { return fault_; }

 private:
  bool fail(const std::byte* at, const char* reason) {
    fault_ = {static_cast<std::size_t>(at - record_.data()), slot_, reason};
    return false;
  }

  template <class Visit>
  bool walk(Bytes message, Visit&& visit) {
    return walk_or_fail(message, visit, [this](const std::byte* at, const char* reason) {
      return fail(at, reason);
    });
  }

  // Walks Features or FeatureLists.
  bool map(Bytes entries, bool in_lists) {
    return walk(entries, [&](std::uint32_t tag, Bytes entry) {
      return tag != fields::kMapEntry || map_entry(entry, in_lists);
    });
  }

  bool map_entry(Bytes entry, bool in_lists) {
    Bytes key;
    // The key may come last, so the values are walked after all other fields.
    bool is_valid = walk(entry, [&](std::uint32_t tag, Bytes content) {
      if (tag == fields::kMapKey) key = content;
      return true;
    });
    const int slot = is_valid ? parser_.find(key, in_lists) : -1;
    if (slot >= 0) {
      slot_ = static_cast<std::size_t>(slot);
      is_valid = walk(entry, [&](std::uint32_t tag, Bytes value) {
        if (tag != fields::kMapValue) return true;
        return in_lists ? feature_list(value) : feature(value);
      });
    }
    if (is_valid) slot_ = std::nullopt;
    return is_valid;
  }

  bool feature_list(Bytes list) {
    return walk(
        list, [&](std::uint32_t tag, Bytes step) { return tag != fields::kStep || feature(step); });
  }

  bool feature(Bytes bytes) {
    return walk(bytes, [&](std::uint32_t tag, Bytes list) {
      const Kind kind = feature_detail::kind_of_tag(tag);
      return kind == Kind::none || values(list, kind);
    });
  }

  bool values(Bytes list, Kind kind) {
    return walk(list, [&](std::uint32_t tag, Bytes payload) {
      if (tag != fields::kListValue || kind == Kind::bytes) return true;
      if (kind == Kind::floats) {
        return payload.size() % 4 == 0 ||
               fail(payload.data(), "the size of packed floats is not a multiple of 4 bytes");
      }
      return packed_ints(payload);
    });
  }

  bool packed_ints(Bytes payload) {
    Cursor cursor(payload);
    while (!cursor.done()) {
      const std::byte* const at = payload.data() + cursor.position();
      std::uint64_t value = 0;
      if (!cursor.read_varint(value)) return fail(at, kInvalidVarint);
    }
    return true;
  }

  const ExampleParser& parser_;
  Bytes record_;
  std::optional<std::size_t> slot_;
  Fault fault_;
};

}  // namespace

std::optional<Fault> explain(const ExampleParser& parser, Bytes record) {
  Walk walk(parser, record);
  if (walk.record()) return std::nullopt;
  return walk.fault();
}

}  // namespace tio
