// Features of unknown names, and the facts about them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "example/feature_facts.h"

namespace tio {

// Limits of all features of a survey. A file may give every record other features.
inline constexpr std::size_t kMaxSurveyFeatures = 100'000;
inline constexpr std::size_t kMaxSurveyNameBytes = std::size_t{1} << 24;

// A feature, and what the record that is read says about it.
struct SurveyedFeature {
  std::string_view name;
  std::size_t number = 0;  // position among all features
  FeatureFacts facts;

  std::uint64_t last_record = 0;  // number of the last record with the feature, from 1
  Location location;              // in that record
  ValueFacts found;
  std::uint64_t steps = 0;
};

class FeatureTable {
 public:
  // Returns a feature, which is added if it is new; null if there are too many.
  SurveyedFeature* find(Bytes key) {
    const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
    auto at = features_.find(name);
    if (at == features_.end()) {
      if (all_.size() == kMaxSurveyFeatures || name.size() > kMaxSurveyNameBytes - name_bytes_) {
        return nullptr;
      }
      at = insert(name);
    }
    return &at->second;
  }

  // All features, in the order in which they were added.
  const std::vector<SurveyedFeature*>& all() const { return all_; }

  // Drops the features that were added last, so that `count` are left.
  void truncate(std::size_t count) {
    for (; all_.size() > count; all_.pop_back()) {
      name_bytes_ -= all_.back()->name.size();
      features_.erase(features_.find(all_.back()->name));
    }
  }

 private:
  using Features = std::map<std::string, SurveyedFeature, std::less<>>;

  Features::iterator insert(std::string_view name) {
    all_.push_back(nullptr);
    try {
      const auto at = features_.emplace(name, SurveyedFeature{}).first;
      at->second.name = at->first;
      at->second.number = all_.size() - 1;
      all_.back() = &at->second;
      name_bytes_ += name.size();
      return at;
    } catch (...) {
      all_.pop_back();
      throw;
    }
  }

  // A tree, because names are chosen by whoever wrote the file, also such with equal hashes.
  Features features_;
  std::vector<SurveyedFeature*> all_;
  std::size_t name_bytes_ = 0;
};

}  // namespace tio
