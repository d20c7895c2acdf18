// Iteration over the entries of Features. Each is predicted from the entry at the same position in
// the previous record.
#pragma once

#include <cstdint>
#include <vector>

#include "example/entry_parts.h"
#include "example/entry_predictor.h"
#include "example/feature.h"
#include "wire/cursor.h"
#include "wire/field.h"

namespace tio {

class EntryWalk {
 public:
  // Begins with the first entry of a record.
  void restart() { number_ = 0; }

  // Forgets all predictions.
  void forget() { predictors_.clear(); }

  // Walks the Features in [at, limit) of a record. Calls `take(predictor, location)` for each entry
  // that is encoded as predicted, with the location of its values, and `read(tag_at, entry)` for
  // each other one, with the offset of its tag and its bytes. Stops when one returns false.
  template <class Take, class Read>
  bool walk(Bytes record, std::size_t at, std::size_t limit, Take&& take, Read&& read) {
    while (at < limit) {
      const EntryPredictor* predictor = next_predictor();
      std::size_t values = 0;
      std::size_t end = 0;
      if (predictor != nullptr && predictor->match(record, at, limit, values, end)) {
        const Location location{static_cast<std::uint32_t>(values),
                                static_cast<std::uint32_t>(end - values), Form::single,
                                predictor->kind()};
        if (!take(*predictor, location)) return false;
        at = end;
      } else if (!read_field(record, at, limit, read)) {
        return false;
      }
      if (predictor != nullptr) ++number_;
    }
    return true;
  }

  // Predicts the next record from an entry that `read` got, if its Feature is one list of one
  // chunk at the end of the entry. `slot` is -1 if such entries are not read.
  void learn(Bytes record, std::size_t tag_at, Bytes bytes, Bytes key, const Location& location,
             int slot) {
    const std::size_t end = offset_in(record, bytes) + bytes.size();
    if (location.form != Form::single || std::size_t{location.offset} + location.size != end) {
      return;
    }
    if (EntryPredictor* next = next_predictor()) {
      next->learn(record, tag_at, location.offset, end, key.size(), slot, location.kind);
    }
  }

  const std::vector<EntryPredictor>& predictors() const { return predictors_; }

 private:
  // Returns the predictor of the next entry. Returns null after more entries than real records
  // have, so that a malicious record cannot use up memory.
  EntryPredictor* next_predictor() {
    constexpr std::size_t kMaxPredictors = 4096;
    if (number_ == kMaxPredictors) return nullptr;
    if (number_ == predictors_.size()) predictors_.emplace_back();
    return &predictors_[number_];
  }

  // Reads the field of Features at offset `at` and moves `at` past it.
  template <class Read>
  static bool read_field(Bytes record, std::size_t& at, std::size_t limit, Read&& read) {
    Cursor cursor(record.subspan(at, limit - at));
    std::uint32_t tag = 0;
    Bytes entry;
    if (!cursor.read_tag(tag)) return false;
    if (tag != fields::kMapEntry) {
      if (!wire::skip_field(cursor, tag)) return false;
    } else if (!cursor.read_delimited(entry) || !read(at, entry)) {
      return false;
    }
    at += cursor.position();
    return true;
  }

  std::size_t number_ = 0;  // of the next entry
  std::vector<EntryPredictor> predictors_;
};

}  // namespace tio
