#include "example/explain.h"

#include "wire/cursor.h"
#include "example/example.h"
#include "example/feature.h"
#include "wire/field_walk.h"
#include "wire/wire.h"

namespace tio {
namespace {

constexpr std::uint32_t kFirst = wire::tag(1, wire::delimited);
constexpr std::uint32_t kSecond = wire::tag(2, wire::delimited);

class Walk {
 public:
  Walk(const ExampleParser& parser, Bytes record) : parser_(parser), record_(record) {}

  bool record() {
    return fields(record_, [&](std::uint32_t tag, Bytes content) {
      if (tag == kFirst) return map(content, false);
      if (tag == kSecond && parser_.has_lists()) return map(content, true);
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
  bool fields(Bytes message, Visit&& visit) {
    return walk_or_fail(message, visit, [this](const std::byte* at, const char* reason) {
      return fail(at, reason);
    });
  }

  // Features, or FeatureLists.
  bool map(Bytes entries, bool in_lists) {
    return fields(entries, [&](std::uint32_t tag, Bytes entry) {
      return tag != kFirst || map_entry(entry, in_lists);
    });
  }

  bool map_entry(Bytes entry, bool in_lists) {
    Bytes key;
    // The key may come last, so the values wait for it.
    bool legal = fields(entry, [&](std::uint32_t tag, Bytes content) {
      if (tag == kFirst) key = content;
      return true;
    });
    slot_ = legal ? parser_.find(key, in_lists) : -1;
    if (legal && slot_ >= 0) {
      legal = fields(entry, [&](std::uint32_t tag, Bytes value) {
        if (tag != kSecond) return true;
        return in_lists ? feature_list(value) : feature(value);
      });
    }
    if (legal) slot_ = -1;
    return legal;
  }

  bool feature_list(Bytes list) {
    return fields(list,
                  [&](std::uint32_t tag, Bytes step) { return tag != kFirst || feature(step); });
  }

  bool feature(Bytes bytes) {
    return fields(bytes, [&](std::uint32_t tag, Bytes list) {
      const Kind kind = feature_detail::kind_of_tag(tag);
      return kind == Kind::none || values(list, kind);
    });
  }

  bool values(Bytes list, Kind kind) {
    return fields(list, [&](std::uint32_t tag, Bytes payload) {
      if (tag != kFirst || kind == Kind::bytes) return true;
      if (kind == Kind::floats) {
        return payload.size() % 4 == 0 ||
               fail(payload.data(), "packed floats are no multiple of 4 bytes");
      }
      return packed_ints(payload);
    });
  }

  bool packed_ints(Bytes payload) {
    Cursor cursor(payload);
    while (!cursor.done()) {
      const std::byte* const at = payload.data() + cursor.position();
      std::uint64_t value = 0;
      if (!cursor.read_varint(value)) {
        return fail(at, "a number is cut short or has over 10 bytes");
      }
    }
    return true;
  }

  const ExampleParser& parser_;
  Bytes record_;
  int slot_ = -1;
  Fault fault_;
};

}  // namespace

std::optional<Fault> explain(const ExampleParser& parser, Bytes record) {
  Walk walk(parser, record);
  if (walk.record()) return std::nullopt;
  return walk.fault();
}

}  // namespace tio
