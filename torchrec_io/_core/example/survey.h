// Facts about the features of records whose schema is not known.
//
// Records are read as protobuf reads them, but names may be any bytes. A feature of which there are
// several counts once, as the last one. A record that is not valid has no features.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "example/entry_walk.h"
#include "example/feature_table.h"
#include "records/records.h"

namespace tio {

// A value that looks like an image. Whether it is one is not checked.
struct ImageValue {
  std::uint64_t record = 0;  // position in the batch
  std::uint64_t offset = 0;  // in the record
  std::uint64_t size = 0;
  std::uint64_t feature = 0;  // position in the context features, or in the feature lists
  bool is_in_list = false;
};

struct SurveyedBatch {
  std::vector<std::int64_t> rejected;  // records that are neither message
  // The first record that is an Example and not a SequenceExample.
  std::optional<std::int64_t> first_example;
  // Whether there were too many features. The rest of the batch is not counted then.
  bool is_full = false;
  // The values of features that have only images so far.
  std::vector<ImageValue> images;
};

class Survey {
 public:
  // Records are read as Examples, and if `with_lists`, as SequenceExamples first. Unless
  // `with_values`, only the presence and the kinds of features are found, and damage inside of
  // their values is not.
  Survey(std::shared_ptr<const CharacterSet> printable, bool with_lists, bool with_values = true)
      : printable_(std::move(printable)), with_lists_(with_lists), with_values_(with_values) {}

  // Nodes of the tables refer to each other.
  Survey(const Survey&) = delete;
  Survey& operator=(const Survey&) = delete;

  SurveyedBatch add(const Records& records);

  // Notes that a value is not a valid image. Returns false if the feature does not exist.
  bool mark_invalid(const ImageValue& image);

  std::uint64_t records() const { return records_; }
  const FeatureTable& context() const { return context_; }
  const FeatureTable& lists() const { return lists_; }

 private:
  enum class Verdict { valid, invalid, full };

  Verdict read(Bytes record, bool with_lists);
  bool read_features(Bytes features);
  bool read_feature(std::size_t tag_at, Bytes bytes);
  bool read_lists(Bytes lists);
  bool repeats(std::size_t position, const SurveyedFeature& feature);
  bool read_values(const Location& at, ValueFacts& found) const;
  void touch(SurveyedFeature& feature, std::vector<SurveyedFeature*>& touched) const;
  void commit(std::int64_t position, SurveyedBatch& batch);
  void add_formats(SurveyedFeature& feature, Location at, ImageValue where, SurveyedBatch& batch);

  std::shared_ptr<const CharacterSet> printable_;
  bool with_lists_;
  bool with_values_;
  std::uint64_t records_ = 0;
  FeatureTable context_;
  FeatureTable lists_;

  // The record that is read, and its features.
  Bytes record_;
  std::uint64_t number_ = 0;  // of the attempt to read a record, from 1
  bool is_full_ = false;
  EntryWalk entries_;
  std::vector<std::size_t> last_at_;  // number of the last feature that was read at each position
  std::vector<SurveyedFeature*> touched_context_;
  std::vector<SurveyedFeature*> touched_lists_;
};

}  // namespace tio
