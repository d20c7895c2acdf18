// Runs the Example parser over a batch as the Python layer does, and hands the columns back as
// plain vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "example.h"

namespace tio::test {

// Records in one buffer that ends where its memory ends.
struct Batch {
  std::vector<std::byte> buffer;
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> sizes;
};

// `gap` bytes of no meaning lie between the records, as the frames' headers do in a file.
inline Batch join(const std::vector<std::string>& records, std::size_t gap = 0) {
  Batch batch;
  std::size_t total = 0;
  for (const auto& record : records) total += record.size() + gap;
  batch.buffer.reserve(total);  // a vector's spare room would hide reads behind its end
  for (const auto& record : records) {
    const auto view = std::as_bytes(std::span(record));
    batch.starts.push_back(static_cast<std::int64_t>(batch.buffer.size()));
    batch.sizes.push_back(static_cast<std::int64_t>(record.size()));
    batch.buffer.insert(batch.buffer.end(), view.begin(), view.end());
    batch.buffer.insert(batch.buffer.end(), gap, std::byte{0xff});
  }
  return batch;
}

// What each value of a feature of one record is in bytes: an element, or a bytes value.
using Values = std::vector<std::string>;

struct Parsed {
  Located located;
  std::vector<Failure> failures;            // the first pass's; if it had none, the second's
  std::vector<std::vector<Values>> values;  // [record][feature], only without failures

  bool good() const { return failures.empty(); }
};

namespace batch_detail {

// An arena with the places of all columns, and bytes between them that nobody may touch.
class Arena {
 public:
  Arena(const ExampleParser& parser, const Located& located) {
    for (std::size_t i = 0; i < parser.specs().size(); ++i) {
      places_.push_back(place(parser.specs()[i], located.records, located.totals[i]));
    }
    bytes_.assign(end_, kUntouched);
  }

  MutableBytes bytes() { return bytes_; }
  const std::vector<ColumnPlace>& places() const { return places_; }

  bool gaps_untouched() const {
    std::size_t at = 0;
    for (const auto& [begin, end] : taken_) {
      for (; at < begin; ++at) {
        if (bytes_[at] != kUntouched) return false;
      }
      at = end;
    }
    return true;
  }

  std::int64_t offset(std::uint64_t table, std::size_t i) const {
    return load<std::int64_t>(bytes_, table + i * 8);
  }
  std::string text(std::uint64_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }

 private:
  static constexpr std::byte kUntouched{0xa5};

  ColumnPlace place(const FeatureSpec& spec, std::size_t records, const ValueCount& total) {
    ColumnPlace place;
    if (spec.shape == Shape::span) return place;
    const bool has_values = spec.element == Element::bytes && spec.shape != Shape::raw;
    if (spec.shape == Shape::ragged) place.row_offsets = take((records + 1) * 8);
    if (has_values) place.value_offsets = take((total.values + 1) * 8);
    if (spec.element == Element::bytes) {
      place.data = take(total.bytes);
    } else {
      const std::uint64_t count = spec.shape == Shape::fixed ? records * spec.count : total.values;
      place.data = take(count * element_bytes(spec.element));
    }
    return place;
  }

  std::uint64_t take(std::uint64_t size) {
    constexpr std::uint64_t kGap = 64;
    const std::uint64_t at = (end_ + kGap + 7) & ~std::uint64_t{7};
    end_ = at + size;
    taken_.emplace_back(at, end_);
    return at;
  }

  std::vector<std::byte> bytes_;
  std::vector<ColumnPlace> places_;
  std::vector<std::pair<std::size_t, std::size_t>> taken_;
  std::uint64_t end_ = 0;
};

inline Values read_values(const Arena& arena, const FeatureSpec& spec, const ColumnPlace& place,
                          const Location& at, Bytes buffer, std::size_t record) {
  Values values;
  if (spec.shape == Shape::span) {
    visit_values(buffer, at, [&](Bytes value) {
      values.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
      return true;
    });
    return values;
  }
  if (spec.shape == Shape::raw) return {arena.text(place.data + record * spec.count, spec.count)};

  auto first = static_cast<std::int64_t>(record * spec.count);
  auto last = static_cast<std::int64_t>((record + 1) * spec.count);
  if (spec.shape == Shape::ragged) {
    first = arena.offset(place.row_offsets, record);
    last = arena.offset(place.row_offsets, record + 1);
  }
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
    std::uint64_t from = i * element_bytes(spec.element);
    std::uint64_t size = element_bytes(spec.element);
    if (spec.element == Element::bytes) {
      from = static_cast<std::uint64_t>(arena.offset(place.value_offsets, i));
      size = static_cast<std::uint64_t>(arena.offset(place.value_offsets, i + 1)) - from;
    }
    values.push_back(arena.text(place.data + from, size));
  }
  return values;
}

}  // namespace batch_detail

inline Parsed parse(const ExampleParser& parser, const Batch& batch) {
  Parsed parsed;
  parsed.located = parser.locate(batch.buffer, batch.starts, batch.sizes);
  const Located& located = parsed.located;
  parsed.failures = located.failures;
  if (!parsed.good()) return parsed;

  batch_detail::Arena arena(parser, located);
  CHECK(parser.places_fit(located, arena.places(), arena.bytes()));
  parsed.failures = parser.fill(batch.buffer, located, arena.places(), arena.bytes());
  CHECK(arena.gaps_untouched());
  if (!parsed.good()) return parsed;

  parsed.values.resize(located.records);
  for (std::size_t record = 0; record < located.records; ++record) {
    for (std::size_t i = 0; i < parser.specs().size(); ++i) {
      const Location& at = located.locations[record * parser.specs().size() + i];
      parsed.values[record].push_back(batch_detail::read_values(
          arena, parser.specs()[i], arena.places()[i], at, batch.buffer, record));
    }
  }
  return parsed;
}

inline Parsed parse(const ExampleParser& parser, const std::string& record) {
  return parse(parser, join({record}));
}

namespace batch_detail {

inline bool same_location(const Location& a, std::int64_t a_start, const Location& b,
                          std::int64_t b_start) {
  if (a.form != b.form || a.kind != b.kind) return false;
  if (a.form == Form::missing) return true;
  return a.size == b.size && a.offset - static_cast<std::uint64_t>(a_start) ==
                                 b.offset - static_cast<std::uint64_t>(b_start);
}

inline const Failure* failure_of(const std::vector<Failure>& failures, std::size_t record) {
  const auto found = std::find_if(failures.begin(), failures.end(),
                                  [record](const Failure& f) { return f.record == record; });
  return found == failures.end() ? nullptr : &*found;
}

inline bool same_failure(const Failure* a, std::int64_t a_start, const Failure* b,
                         std::int64_t b_start) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->feature == b->feature && a->reason == b->reason &&
         a->offset - static_cast<std::uint64_t>(a_start) ==
             b->offset - static_cast<std::uint64_t>(b_start);
}

}  // namespace batch_detail

// What differs between record `i` of a batch and the same record parsed alone; nothing if nothing
// does.
inline std::string compare_record(const Batch& batch, const Parsed& together, std::size_t i,
                                  const Parsed& alone) {
  const std::int64_t start = batch.starts[i];
  const std::size_t features = together.located.totals.size();
  const Failure* failure = batch_detail::failure_of(together.located.failures, i);
  const Failure* wanted = batch_detail::failure_of(alone.located.failures, 0);
  if (!batch_detail::same_failure(failure, start, wanted, 0)) {
    return "another failure: " + (failure ? failure->reason : "none") +
           " / alone: " + (wanted ? wanted->reason : "none");
  }
  if (wanted != nullptr && wanted->feature < 0) return "";  // no Example: its row means nothing
  for (std::size_t feature = 0; feature < features; ++feature) {
    if (!batch_detail::same_location(together.located.locations[i * features + feature], start,
                                     alone.located.locations[feature], 0)) {
      return "another place of feature " + std::to_string(feature);
    }
  }
  if (!together.located.failures.empty()) return "";  // the second pass was not run
  if (!batch_detail::same_failure(batch_detail::failure_of(together.failures, i), start,
                                  batch_detail::failure_of(alone.failures, 0), 0)) {
    return "another failure in the second pass";
  }
  return together.good() && together.values[i] != alone.values[0] ? "other values" : "";
}

// Parsing a batch must give for each record what parsing it alone gives, although what came before
// it was used to foresee it. Says what differs, or nothing.
inline std::string difference_from_alone(const ExampleParser& parser,
                                         const std::vector<std::string>& records,
                                         std::size_t gap = 0) {
  std::vector<Parsed> alone;
  for (const auto& record : records) alone.push_back(parse(parser, record));
  Batch batch = join(records, gap);
  // The records of a batch may lie in the buffer in any order.
  for (const bool reversed : {false, true}) {
    if (reversed) {
      std::reverse(batch.starts.begin(), batch.starts.end());
      std::reverse(batch.sizes.begin(), batch.sizes.end());
      std::reverse(alone.begin(), alone.end());
    }
    const Parsed together = parse(parser, batch);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const std::string difference = compare_record(batch, together, i, alone[i]);
      if (!difference.empty()) return "record " + std::to_string(i) + ": " + difference;
    }
  }
  return "";
}

// ---- schemas ----

inline FeatureSpec fixed(std::string name, Element element, std::uint64_t count = 1) {
  FeatureSpec spec;
  spec.name = std::move(name);
  spec.element = element;
  spec.count = count;
  return spec;
}

inline FeatureSpec ragged(std::string name, Element element) {
  FeatureSpec spec = fixed(std::move(name), element, 0);
  spec.shape = Shape::ragged;
  return spec;
}

inline FeatureSpec one_bytes(std::string name, Shape shape, std::uint64_t count = 1) {
  FeatureSpec spec = fixed(std::move(name), Element::bytes, count);
  spec.shape = shape;
  return spec;
}

// `values`: each one as its bytes.
inline FeatureSpec with_default(FeatureSpec spec, const Values& values) {
  spec.has_default = true;
  for (const auto& value : values) {
    const auto bytes = std::as_bytes(std::span(value));
    spec.default_data.insert(spec.default_data.end(), bytes.begin(), bytes.end());
    if (spec.element == Element::bytes) spec.default_sizes.push_back(value.size());
  }
  return spec;
}

}  // namespace tio::test
