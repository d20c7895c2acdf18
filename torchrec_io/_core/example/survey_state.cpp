#include "example/survey_state.h"

#include <string_view>

namespace tio {
namespace {

template <class T>
void put(std::string& state, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  state.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
void put_extent(std::string& state, const Extent<T>& extent) {
  put(state, extent.least);
  put(state, extent.most);
}

void put_facts(std::string& state, const FeatureFacts& facts) {
  put(state, facts.records);
  put(state, facts.present);
  put_extent(state, facts.steps);
  put(state, facts.values.kinds);
  put_extent(state, facts.values.counts);
  put_extent(state, facts.values.ints);
  put_extent(state, facts.values.floats);
  put_extent(state, facts.values.sizes);
  put(state, static_cast<std::uint64_t>(facts.formats.all().size()));
  for (const auto& [format, values] : facts.formats.all()) {
    put(state, static_cast<std::uint64_t>(format));
    put(state, values);
  }
  put(state, static_cast<std::uint8_t>(facts.has_invalid_image));
}

void put_table(std::string& state, const FeatureTable& table) {
  put(state, static_cast<std::uint64_t>(table.all().size()));
  for (const SurveyedFeature* const feature : table.all()) {
    put(state, static_cast<std::uint64_t>(feature->name.size()));
    state.append(feature->name);
    put_facts(state, feature->facts);
  }
}

// Reads values; false if the bytes end before, or no survey has these values.
class StateReader {
 public:
  explicit StateReader(Bytes state) : left_(state) {}

  bool done() const { return left_.empty(); }

  template <class T>
  bool read(T& value) {
    if (left_.size() < sizeof(T)) return false;
    value = load<T>(left_, 0);
    left_ = left_.subspan(sizeof(T));
    return true;
  }

  template <class T>
  bool read(Extent<T>& extent) {
    return read(extent.least) && read(extent.most);
  }

  bool read(std::string_view& text) {
    std::uint64_t size = 0;
    if (!read(size) || size > left_.size()) return false;
    text = {reinterpret_cast<const char*>(left_.data()), static_cast<std::size_t>(size)};
    left_ = left_.subspan(static_cast<std::size_t>(size));
    return true;
  }

  bool read(FormatCounts& formats) {
    std::uint64_t size = 0;
    if (!read(size)) return false;
    for (; size != 0; --size) {
      std::uint64_t format = 0;
      std::uint64_t values = 0;
      if (!read(format) || !read(values) || format >= kByteFormats) return false;
      const std::size_t before = formats.all().size();
      formats.add(static_cast<ByteFormat>(format), values);
      if (formats.all().size() == before) return false;  // it was counted before
    }
    return true;
  }

  bool read(FeatureFacts& facts) {
    std::uint8_t is_invalid = 0;
    const bool is_whole = read(facts.records) && read(facts.present) && read(facts.steps) &&
                          read(facts.values.kinds) && read(facts.values.counts) &&
                          read(facts.values.ints) && read(facts.values.floats) &&
                          read(facts.values.sizes) && read(facts.formats) && read(is_invalid);
    facts.has_invalid_image = is_invalid != 0;
    return is_whole && is_invalid <= 1;
  }

  bool read(FeatureTable& table) {
    std::uint64_t size = 0;
    if (!read(size)) return false;
    for (; size != 0; --size) {
      std::string_view name;
      FeatureFacts facts;
      if (!read(name) || !read(facts)) return false;
      const std::size_t before = table.all().size();
      SurveyedFeature* const feature = table.find(name);
      if (feature == nullptr || table.all().size() == before) return false;  // full, or repeated
      feature->facts = facts;
    }
    return true;
  }

 private:
  Bytes left_;
};

}  // namespace

std::string survey_state(const Survey& survey) {
  std::string state;
  put(state, survey.records_);
  put_table(state, survey.context_);
  put_table(state, survey.lists_);
  return state;
}

bool restore_survey(Bytes state, Survey& empty) {
  StateReader reader(state);
  return reader.read(empty.records_) && reader.read(empty.context_) && reader.read(empty.lists_) &&
         reader.done();
}

}  // namespace tio
