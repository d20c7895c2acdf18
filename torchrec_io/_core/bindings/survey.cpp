#include "example/survey.h"

#include <nanobind/stl/string_view.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/arrays.h"

namespace tio {
namespace {

// Numbers as Python has them.
template <class T>
using Ends = std::optional<std::pair<T, T>>;

template <class T>
Ends<T> ends_of(const Extent<T>& extent) {
  if (extent.empty()) return std::nullopt;
  return std::pair(extent.least, extent.most);
}

// Zeros are equal, so which of them is the smallest number depends on the order of the values.
Ends<double> float_ends(const Extent<float>& extent) {
  if (extent.empty()) return std::nullopt;
  return std::pair(extent.least + 0.0, extent.most + 0.0);
}

std::vector<std::string_view> kinds_of(const FeatureFacts& facts) {
  std::vector<std::string_view> kinds;
  for (const Kind kind : {Kind::bytes, Kind::floats, Kind::ints}) {
    if ((facts.values.kinds & kind_bit(kind)) != 0) kinds.push_back(kind_name(kind));
  }
  return kinds;
}

std::vector<std::pair<std::string_view, std::uint64_t>> formats_of(const FeatureFacts& facts) {
  std::vector<std::pair<std::string_view, std::uint64_t>> formats;
  for (const auto& [format, values] : facts.formats.all()) {
    formats.emplace_back(name_of(format), values);
  }
  return formats;
}

// Names are bytes, and no text. Features that only rejected records have are left out.
nb::dict facts_of(const FeatureTable& table) {
  nb::dict found;
  for (const SurveyedFeature* const feature : table.all()) {
    if (feature->facts.records == 0) continue;
    found[nb::bytes(feature->name.data(), feature->name.size())] =
        nb::cast(feature->facts, nb::rv_policy::copy);
  }
  return found;
}

void init_characters(CharacterSet* self, const Buffer& bits) {
  if (bits.size() != CharacterSet::kBytes) {
    throw nb::value_error("bits must have a bit for each character");
  }
  new (self) CharacterSet(bytes_of(bits));
}

void init_survey(Survey* self, nb::handle_t<CharacterSet> printable, bool with_lists,
                 bool with_values) {
  new (self) Survey(share(printable), with_lists, with_values);
}

std::string_view bind_sniff(nb::bytes value, const CharacterSet& printable) {
  return name_of(sniff(bytes_of(value), printable));
}

void bind_mark_invalid(Survey& self, const ImageValue& image) {
  if (!self.mark_invalid(image)) throw nb::index_error("the image is of another survey");
}

void bind_survey_results(nb::module_& m) {
  nb::class_<FeatureFacts>(m, "FeatureFacts", "Facts about a feature of some records.")
      .def_ro("records", &FeatureFacts::records,
              "Number of records that have the feature, also without a list of values.")
      .def_ro("present", &FeatureFacts::present,
              "Number of records that have a list of values, or the feature list.")
      .def_prop_ro("kinds", &kinds_of, "Kinds of its values.")
      .def_prop_ro(
          "counts", [](const FeatureFacts& self) { return ends_of(self.values.counts); },
          "Smallest and largest number of values of a record or step.")
      .def_prop_ro(
          "steps", [](const FeatureFacts& self) { return ends_of(self.steps); },
          "Smallest and largest number of steps of a feature list.")
      .def_prop_ro(
          "ints", [](const FeatureFacts& self) { return ends_of(self.values.ints); },
          "Smallest and largest integer.")
      .def_prop_ro(
          "floats", [](const FeatureFacts& self) { return float_ends(self.values.floats); },
          "Smallest and largest float that is a number.")
      .def_prop_ro(
          "sizes", [](const FeatureFacts& self) { return ends_of(self.values.sizes); },
          "Smallest and largest size of a bytes value.")
      .def_prop_ro("formats", &formats_of, "Formats of its bytes values, and their numbers.")
      .def_ro("has_invalid_image", &FeatureFacts::has_invalid_image,
              "Whether a value looks like an image and cannot be decoded.");

  nb::class_<ImageValue>(m, "ImageValue", "A value that looks like an image.")
      .def_ro("record", &ImageValue::record, "Position of its record.")
      .def_ro("offset", &ImageValue::offset, "Offset in the record.")
      .def_ro("size", &ImageValue::size, "Size in bytes.")
      .def_ro("feature", &ImageValue::feature,
              "Position of its feature in the context, or among the feature lists.")
      .def_ro("is_in_list", &ImageValue::is_in_list, "True if its feature is a feature list.");

  nb::class_<SurveyedBatch>(m, "SurveyedBatch", "The result of a survey of some records.")
      .def_ro("rejected", &SurveyedBatch::rejected,
              "Positions of the records that are neither Examples nor SequenceExamples.")
      .def_ro("first_example", &SurveyedBatch::first_example,
              "Position of the first record that is an Example and not a SequenceExample.")
      .def_ro("is_full", &SurveyedBatch::is_full,
              "True if there are too many features; the rest of the records is not counted then.")
      .def_ro("images", &SurveyedBatch::images,
              "Images to check, of features that have only images so far.");
}

}  // namespace

void bind_survey(nb::module_& m) {
  bind_survey_results(m);
  m.attr("CHARACTER_SET_BYTES") = CharacterSet::kBytes;
  m.attr("MOST_SURVEY_FEATURES") = kMaxSurveyFeatures;
  m.attr("MOST_SURVEY_NAME_BYTES") = kMaxSurveyNameBytes;
  nb::class_<CharacterSet>(m, "CharacterSet", "A set of Unicode characters.")
      .def("__init__", &init_characters, "bits"_a,
           "Args:\n"
           "    bits: A bit for each character, the lowest bits first; CHARACTER_SET_BYTES bytes.");
  m.def("sniff", &bind_sniff, "value"_a, "printable"_a,
        "Return the name of the format that bytes seem to have.");
  nb::class_<Survey>(m, "Survey",
                     "Facts about the features of records whose schema is not known.\n\n"
                     "One thread at a time may use a survey.")
      .def("__init__", &init_survey, "printable"_a, "with_lists"_a = true, "with_values"_a = true,
           "Args:\n"
           "    printable: Characters that text may have, besides tabs and line breaks.\n"
           "    with_lists: Whether records may be SequenceExamples. If not, only the features of\n"
           "        Examples are read.\n"
           "    with_values: Whether values are read. If not, only the presence and the kinds of\n"
           "        features are found, and damage inside of their values is not.")
      .def("add", &Survey::add, Unlocked(), "records"_a, "Add the facts about some records.")
      .def("mark_invalid", &bind_mark_invalid, "image"_a,
           "Note that a value is not an image that can be decoded.")
      .def_prop_ro("records", &Survey::records, "Number of valid records.")
      .def_prop_ro(
          "context", [](const Survey& self) { return facts_of(self.context()); },
          nb::sig("def context(self) -> dict[bytes, FeatureFacts]"),
          "Facts about each context feature, or feature of Examples, by name.")
      .def_prop_ro(
          "lists", [](const Survey& self) { return facts_of(self.lists()); },
          nb::sig("def lists(self) -> dict[bytes, FeatureFacts]"),
          "Facts about each feature list, by name.");
}

}  // namespace tio
