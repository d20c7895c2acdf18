#include "example/survey.h"

#include <array>
#include <utility>

#include "example/entry_parts.h"
#include "example/parser.h"
#include "example/sequence.h"

namespace tio {
namespace {

// No decoder reads a smaller image.
constexpr std::size_t kMinImageBytes = 10;

bool add_ints(Bytes packed, ValueFacts& found, std::uint64_t& count) {
  std::int64_t value = 0;
  if (!packed.empty() && packed.size() <= 8 &&
      decode_word(load_word(packed, 0), static_cast<unsigned>(packed.size()), value)) {
    found.ints.add(value);
    ++count;
    return true;
  }
  constexpr std::size_t kPiece = 128;
  std::int64_t values[kPiece];
  VarintReader reader(packed);
  while (!reader.done()) {
    const std::size_t size = reader.read(values, kPiece);
    if (reader.bad()) return false;
    for (std::size_t i = 0; i < size; ++i) found.ints.add(values[i]);
    count += size;
  }
  return true;
}

bool add_floats(Bytes packed, ValueFacts& found, std::uint64_t& count) {
  if (packed.size() % sizeof(float) != 0) return false;
  // Independent extents, so that the compiler compares several values at once.
  constexpr std::size_t kLanes = 8;
  std::array<float, kLanes> least;
  std::array<float, kLanes> most;
  least.fill(found.floats.least);
  most.fill(found.floats.most);
  std::size_t at = 0;
  for (; packed.size() - at >= sizeof(least); at += sizeof(least)) {
    const auto values = load<std::array<float, kLanes>>(packed, at);
    for (std::size_t i = 0; i < kLanes; ++i) {
      least[i] = values[i] < least[i] ? values[i] : least[i];
      most[i] = values[i] > most[i] ? values[i] : most[i];
    }
  }
  for (std::size_t i = 0; at != 0 && i < kLanes; ++i) found.floats.add({least[i], most[i]});
  for (; at < packed.size(); at += sizeof(float)) found.floats.add(load<float>(packed, at));
  count += packed.size() / sizeof(float);
  return true;
}

bool add_values(Bytes payload, Kind kind, ValueFacts& found, std::uint64_t& count) {
  if (kind == Kind::ints) return add_ints(payload, found, count);
  if (kind == Kind::floats) return add_floats(payload, found, count);
  found.sizes.add(payload.size());
  ++count;
  return true;
}

}  // namespace

// ---- the features of a record ----

Survey::Verdict Survey::read(Bytes record, bool with_lists) {
  const std::size_t context_size = context_.all().size();
  const std::size_t lists_size = lists_.all().size();
  record_ = record;
  ++number_;
  is_full_ = false;
  entries_.restart();
  touched_context_.clear();
  touched_lists_.clear();
  const bool is_valid = record.size() <= kMaxRecordBytes &&
                        wire::walk_tags(record, [&](std::uint32_t tag, Cursor& cursor) {
                          Bytes part;
                          if (tag == fields::kContext) {
                            return cursor.read_delimited(part) && read_features(part);
                          }
                          if (tag == fields::kFeatureLists && with_lists) {
                            return cursor.read_delimited(part) && read_lists(part);
                          }
                          return wire::skip_field(cursor, tag);
                        });
  if (is_valid) return Verdict::valid;
  // Only valid records have features.
  if (context_.all().size() != context_size) entries_.forget();
  context_.truncate(context_size);
  lists_.truncate(lists_size);
  return is_full_ ? Verdict::full : Verdict::invalid;
}

bool Survey::read_features(Bytes features) {
  const std::size_t at = offset_in(record_, features);
  return entries_.walk(
      record_, at, at + features.size(),
      [&](const EntryPredictor& predictor, const Location& values) {
        SurveyedFeature& feature = *context_.all()[static_cast<std::size_t>(predictor.slot())];
        touch(feature, touched_context_);
        feature.location = values;
        return read_values(values, feature.found);
      },
      [&](std::size_t tag_at, Bytes bytes) { return read_feature(tag_at, bytes); });
}

bool Survey::read_feature(std::size_t tag_at, Bytes bytes) {
  EntryParts entry;
  Location at;
  if (!split_entry(bytes, entry) || !locate_entry(record_, bytes, entry, at)) return false;
  SurveyedFeature* const feature = context_.find(entry.key);
  if (feature == nullptr) {
    is_full_ = true;
    return false;
  }
  if (repeats(touched_context_.size(), *feature)) {
    entries_.learn(record_, tag_at, bytes, entry.key, at, static_cast<int>(feature->number));
  }
  touch(*feature, touched_context_);
  feature->location = at;
  return at.form == Form::missing || read_values(at, feature->found);
}

bool Survey::read_lists(Bytes lists) {
  return feature_detail::walk_fields(lists, fields::kMapEntry, [&](Bytes bytes) {
    EntryParts entry;
    if (!split_entry(bytes, entry)) return false;
    SurveyedFeature* const feature = lists_.find(entry.key);
    if (feature == nullptr) {
      is_full_ = true;
      return false;
    }
    touch(*feature, touched_lists_);
    feature->location = locate_steps(record_, bytes, entry);
    return walk_steps(record_, feature->location, Kind::ints, [&](const Location& step) {
      ++feature->steps;
      if (step.form != Form::missing) return read_values(step, feature->found);
      feature->found.counts.add(0);
      return true;
    });
  });
}

// Returns whether a feature was also read at this position in the last record that was read there.
// Some writers shuffle the features of each record. There, learning costs more than it saves.
bool Survey::repeats(std::size_t position, const SurveyedFeature& feature) {
  constexpr std::size_t kMaxPositions = 4096;
  if (position >= kMaxPositions) return false;
  if (position >= last_at_.size()) last_at_.resize(position + 1);
  return std::exchange(last_at_[position], feature.number) == feature.number;
}

// Clears the facts about a feature in the record that is read.
void Survey::touch(SurveyedFeature& feature, std::vector<SurveyedFeature*>& touched) const {
  if (feature.last_record != number_) touched.push_back(&feature);
  feature.last_record = number_;
  feature.found = {};
  feature.steps = 0;
}

bool Survey::read_values(const Location& at, ValueFacts& found) const {
  std::uint64_t count = 0;
  found.kinds |= kind_bit(at.kind);
  if (!with_values_) return true;
  if (!visit_values(record_, at,
                    [&](Bytes payload) { return add_values(payload, at.kind, found, count); })) {
    return false;
  }
  found.counts.add(count);
  return true;
}

// ---- all records ----

SurveyedBatch Survey::add(const Records& records) {
  SurveyedBatch batch;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    Verdict verdict = read(records[i], with_lists_);
    // An Example may have any bytes in the field of feature lists.
    const bool is_example = verdict == Verdict::invalid && with_lists_ &&
                            (verdict = read(records[i], false)) == Verdict::valid;
    if (is_example && !batch.first_example) batch.first_example = position;
    if (verdict == Verdict::full) {
      batch.is_full = true;
      return batch;
    }
    if (verdict == Verdict::valid) {
      commit(position, batch);
    } else {
      batch.rejected.push_back(position);
    }
  }
  return batch;
}

void Survey::commit(std::int64_t position, SurveyedBatch& batch) {
  const auto record = static_cast<std::uint64_t>(position);
  ++records_;
  for (SurveyedFeature* const feature : touched_context_) {
    ++feature->facts.records;
    if (feature->found.kinds == 0) continue;  // it counts as missing
    ++feature->facts.present;
    feature->facts.values.add(feature->found);
    if (with_values_ && feature->location.kind == Kind::bytes) {
      add_formats(*feature, feature->location, {.record = record}, batch);
    }
  }
  for (SurveyedFeature* const feature : touched_lists_) {
    ++feature->facts.records;
    ++feature->facts.present;
    feature->facts.steps.add(feature->steps);
    feature->facts.values.add(feature->found);
    if (!with_values_ || (feature->found.kinds & kind_bit(Kind::bytes)) == 0) continue;
    walk_steps(record_, feature->location, Kind::bytes, [&](const Location& step) {
      if (step.kind == Kind::bytes) {
        add_formats(*feature, step, {.record = record, .is_in_list = true}, batch);
      }
      return true;
    });
  }
}

void Survey::add_formats(SurveyedFeature& feature, Location at, ImageValue where,
                         SurveyedBatch& batch) {
  FeatureFacts& facts = feature.facts;
  visit_values(record_, at, [&](Bytes value) {
    const ByteFormat format = sniff(value, *printable_);
    facts.formats.add(format);
    if (!is_image(format) || facts.has_invalid_image || !facts.formats.are_images()) return true;
    facts.has_invalid_image = value.size() < kMinImageBytes;
    if (facts.has_invalid_image) return true;
    where.offset = offset_in(record_, value);
    where.size = value.size();
    where.feature = feature.number;
    batch.images.push_back(where);
    return true;
  });
}

bool Survey::mark_invalid(const ImageValue& image) {
  const auto& features = (image.is_in_list ? lists_ : context_).all();
  if (image.feature >= features.size()) return false;
  features[image.feature]->facts.has_invalid_image = true;
  return true;
}

}  // namespace tio
