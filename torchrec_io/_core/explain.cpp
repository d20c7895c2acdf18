#include "explain.h"

#include "cursor.h"
#include "example.h"
#include "feature.h"
#include "wire.h"

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

  // Calls `visit(tag, content)` for each field of a message that has a length.
  template <class Visit>
  bool fields(Bytes message, Visit&& visit) {
    Cursor cursor(message);
    while (!cursor.done()) {
      const std::byte* const at = message.data() + cursor.position();
      std::uint32_t tag = 0;
      if (!cursor.read_tag(tag)) {
        return fail(at, cursor.done() ? "a field's tag is cut short"
                                      : "a field's tag is no legal field number");
      }
      Bytes content;
      if ((tag & 7) == wire::delimited) {
        if (!cursor.read_delimited(content)) {
          return fail(at, "a field's length reaches past the end of its message");
        }
        if (!visit(tag, content)) return false;
      } else if (!wire::skip_field(cursor, tag)) {
        return fail(at, why_not_skipped(tag));
      }
    }
    return true;
  }

  static const char* why_not_skipped(std::uint32_t tag) {
    switch (tag & 7) {
      case wire::varint: return "a number is cut short or has over 10 bytes";
      case wire::fixed32:
      case wire::fixed64: return "a number is cut short";
      case wire::group: return "a group is not legal, not closed, or over 100 deep";
      case wire::end_group: return "a group ends that was not begun";
      default: return "a field has a wire type that does not exist";
    }
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
