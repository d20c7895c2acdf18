#include "example/step_pieces.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "example/entry_parts.h"
#include "example/fields.h"
#include "example/parser.h"
#include "wire/crc32c.h"

namespace tio {
namespace {

// Calls `visit(whole, content)` for each field of a message, which all must have a tag. `whole`
// begins with the tag.
template <class Visit>
bool walk_whole(Bytes message, std::uint32_t wanted, Visit&& visit) {
  std::size_t begin = 0;
  return wire::walk_tags(message, [&](std::uint32_t tag, Cursor& cursor) {
    Bytes content;
    if (tag != wanted || !cursor.read_delimited(content)) return false;
    const Bytes whole = message.subspan(begin, cursor.position() - begin);
    begin = cursor.position();
    return visit(whole, content);
  });
}

// Returns the content of the only field of a message, which must have a tag.
bool read_only(Bytes message, std::uint32_t wanted, Bytes& content) {
  Cursor cursor(message);
  std::uint32_t tag = 0;
  return cursor.read_tag(tag) && tag == wanted && cursor.read_delimited(content) && cursor.done();
}

class PieceLocator {
 public:
  explicit PieceLocator(const PieceKeys& keys)
      : keys_(keys),
        first_step_(keys.context.size() + keys.lists.size()),
        found_(first_step_ + keys.steps.size()) {
    std::size_t slot = 0;
    for (const std::string& key : keys.context) context_[key] = slot++;
    for (const std::string& key : keys.lists) lists_[key] = slot++;
    for (const StepKey& step : keys.steps) (keys.in_lists ? lists_ : context_)[step.key] = slot++;
  }

  void locate(Bytes record, StepPieces& out) {
    const std::size_t begin = out.pieces.size();
    record_ = record;
    std::ranges::fill(found_, Found{});
    if (record.size() > kMaxRecordBytes || !read() || !add_pieces(out.pieces)) {
      out.pieces.resize(begin);
    }
    out.counts.push_back(static_cast<std::int64_t>(out.pieces.size() - begin));
  }

 private:
  using Slots = std::unordered_map<std::string_view, std::size_t>;
  struct Found {
    Bytes whole;  // the entry of the map
    Bytes value;
  };

  bool read() {
    return wire::walk_tags(record_, [&](std::uint32_t tag, Cursor& cursor) {
      const bool is_context = tag == fields::kContext;
      Bytes entries;
      if (!is_context && tag != fields::kFeatureLists) return wire::skip_field(cursor, tag);
      return cursor.read_delimited(entries) &&
             read_entries(entries, is_context ? context_ : lists_);
    });
  }

  bool read_entries(Bytes entries, const Slots& slots) {
    return walk_whole(entries, fields::kMapEntry, [&](Bytes whole, Bytes content) {
      EntryParts entry;
      if (!split_entry(content, entry)) return false;
      const auto* const name = reinterpret_cast<const char*>(entry.key.data());
      const auto slot = slots.find(std::string_view(name, entry.key.size()));
      if (slot == slots.end()) return true;
      Found& found = found_[slot->second];
      if (!found.whole.empty() || entry.values != 1) return false;
      found = {whole, entry.value};
      return true;
    });
  }

  bool add_pieces(std::vector<Piece>& pieces) const {
    for (std::size_t slot = 0; slot < first_step_; ++slot) {
      pieces.push_back(piece_of(found_[slot].whole));
    }
    std::size_t steps = 0;
    for (std::size_t slot = first_step_; slot < found_.size(); ++slot) {
      const std::size_t begin = pieces.size();
      if (!add_steps(keys_.steps[slot - first_step_], found_[slot].value, pieces)) return false;
      if (slot != first_step_ && pieces.size() - begin != steps) return false;
      steps = pieces.size() - begin;
    }
    return true;
  }

  bool add_steps(const StepKey& step, Bytes value, std::vector<Piece>& pieces) const {
    const auto add = [&](Bytes whole, Bytes) {
      pieces.push_back(piece_of(whole));
      return true;
    };
    if (keys_.in_lists) return walk_whole(value, fields::kStep, add);
    Bytes list;
    if (step.item_bytes == 0) {
      return read_only(value, wire::tag(fields::kBytesListField, wire::delimited), list) &&
             walk_whole(list, fields::kListValue, add);
    }
    Bytes packed;
    if (!read_only(value, wire::tag(fields::kFloatListField, wire::delimited), list) ||
        !read_only(list, fields::kListValue, packed) || packed.size() % step.item_bytes != 0) {
      return false;
    }
    for (std::size_t at = 0; at < packed.size(); at += step.item_bytes) {
      pieces.push_back(piece_of(packed.subspan(at, step.item_bytes)));
    }
    return true;
  }

  Piece piece_of(Bytes bytes) const {
    if (bytes.empty()) return {};
    return {static_cast<std::uint32_t>(offset_in(record_, bytes)),
            static_cast<std::uint32_t>(bytes.size()), crc32c(bytes)};
  }

  const PieceKeys& keys_;
  std::size_t first_step_;  // slot of the first key of `steps`
  Slots context_;
  Slots lists_;
  Bytes record_;
  std::vector<Found> found_;  // by slot
};

}  // namespace

StepPieces locate_pieces(const Records& records, const PieceKeys& keys) {
  StepPieces out;
  out.counts.reserve(records.size());
  PieceLocator locator(keys);
  for (std::size_t i = 0; i < records.size(); ++i) locator.locate(records[i], out);
  return out;
}

}  // namespace tio
