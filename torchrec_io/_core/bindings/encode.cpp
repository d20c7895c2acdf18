// Dicts of Python values to messages. Values that ValueReader does not know are made simpler by a
// Python function. It may run any code, which may change the dicts and lists that are being read:
// so it is called when all else is read, and all that a view was taken of is held by then.
#include <string>
#include <vector>

#include "example/encoder.h"
#include "bindings/parts.h"
#include "bindings/values.h"

namespace tio {
namespace {

// From here on other threads may run while a message is written.
constexpr std::size_t kLongBytes = 1 << 16;

const char* stored_name(Kind kind) {
  switch (kind) {
    case Kind::ints: return "int64";
    case Kind::floats: return "float32";
    default: return "bytes";
  }
}

std::string name_of_type(nb::handle value) {
  const auto name = nb::steal<nb::object>(PyObject_GetAttrString(value.type().ptr(), "__name__"));
  const char* text = name.is_valid() ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "value of an unknown type" : text;
}

// What repr() says, cut where it is long; what is not ASCII is escaped.
std::string describe(nb::handle value) {
  constexpr std::size_t kMost = 80;
  const auto repr = nb::steal<nb::object>(PyObject_ASCII(value.ptr()));
  const char* text = repr.is_valid() ? PyUnicode_AsUTF8AndSize(repr.ptr(), nullptr) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();  // as of an int of too many digits
    return "this " + name_of_type(value);
  }
  const std::string whole(text);
  return whole.size() <= kMost ? whole : whole.substr(0, kMost) + "...";
}

class MessageReader {
 public:
  MessageReader(nb::handle kinds, nb::handle array_type, nb::handle scalar_type,
                nb::handle simplify)
      : kinds_(kinds), simplify_(simplify), values_(array_type, scalar_type) {}

  // The message of two dicts, each of which may be None. A negative position is not named.
  nb::object encode(nb::handle context, nb::handle sequence, Py_ssize_t position) {
    position_ = position;
    message_.clear();
    values_.clear();
    late_.clear();
    read_part(message_.context, context, false);
    read_part(message_.sequence, sequence, true);
    read_late_values();
    return write();
  }

 private:
  // A value that waits for being made simpler.
  struct Late {
    MessagePart* part;
    std::size_t entry;
    nb::handle name;
    nb::handle value;
  };

  // ---- errors ----

  // Raises an error that says where: in which example, and in which feature if there is a name.
  [[noreturn]] void refuse(PyObject* type, const std::string& reason, nb::handle name) const {
    PyErr_SetString(type, (reason + place_of(name)).c_str());
    nb::raise_python_error();
  }

  std::string place_of(nb::handle name) const {
    std::string place;
    if (position_ >= 0) place = "example " + std::to_string(position_);
    if (name.is_valid()) place += (place.empty() ? "feature " : ", feature ") + describe(name);
    return place.empty() ? place : " (" + place + ")";
  }

  [[noreturn]] void refuse_value(Outcome outcome, Kind kind, nb::handle name) const {
    if (outcome == Outcome::too_deep) {
      const std::string most = std::to_string(ValueReader::kDeepest);
      refuse(PyExc_ValueError, "lists are nested more than " + most + " deep", name);
    }
    const bool is_array = !values_.misfit().is_valid();
    const std::string value = is_array ? "an array of numbers" : describe(values_.misfit());
    const std::string stored = stored_name(kind);
    if (outcome == Outcome::out_of_range) {
      refuse(PyExc_ValueError, value + " does not fit in " + stored, name);
    }
    if (outcome == Outcome::not_text) {
      refuse(PyExc_ValueError, value + " cannot be encoded as UTF-8", name);
    }
    refuse(PyExc_TypeError, value + " cannot be stored as " + stored, name);
  }

  // ---- features ----

  // The kind that is named for a feature.
  Kind named_kind(nb::handle name) const {
    if (kinds_.is_none()) return Kind::none;
    PyObject* number = PyDict_GetItemWithError(kinds_.ptr(), name.ptr());
    if (number == nullptr && PyErr_Occurred() != nullptr) nb::raise_python_error();
    return number == nullptr ? Kind::none : static_cast<Kind>(nb::cast<int>(nb::handle(number)));
  }

  // The kind of values that were looked at; none if there are only steps of no kind.
  Kind settle_kind(const Contents& found, nb::handle value, nb::handle name, bool steps) const {
    if (found.bytes && (found.ints || found.floats)) {
      refuse(PyExc_TypeError, "its values are both numbers and bytes", name);
    }
    if (found.bytes) return Kind::bytes;
    if (found.floats) return Kind::floats;
    if (found.ints) return Kind::ints;
    if (found.of_empty != Kind::none) return found.of_empty;
    if (!steps || !only_none(value)) {
      refuse(PyExc_ValueError, "an empty list has no kind: name one in kinds", name);
    }
    return Kind::none;
  }

  static bool only_none(nb::handle steps) {
    for (Py_ssize_t i = 0; i < ValueReader::size_of(steps); ++i) {
      if (!ValueReader::item_of(steps, i).is_none()) return false;
    }
    return true;
  }

  std::size_t count_of(Kind kind) const {
    switch (kind) {
      case Kind::ints: return message_.ints.size();
      case Kind::floats: return message_.floats.size();
      default: return message_.bytes.size();
    }
  }

  // Appends a value as one Feature; None has no kind.
  Outcome append_feature(nb::handle value, Kind kind, int depth) {
    if (value.is_none()) {
      message_.features.push_back({});
      return Outcome::good;
    }
    const std::size_t begin = count_of(kind);
    const Outcome outcome = values_.append(value, kind, message_, depth);
    message_.features.push_back({kind, begin, count_of(kind)});
    return outcome;
  }

  Outcome append_steps(nb::handle value, Kind kind) {
    if (values_.is_array(value)) return append_rows(values_.view_of(value), kind);
    for (Py_ssize_t i = 0; i < ValueReader::size_of(value); ++i) {
      const Outcome outcome = append_feature(ValueReader::item_of(value, i), kind, 1);
      if (outcome != Outcome::good) return outcome;
    }
    return Outcome::good;
  }

  Outcome append_rows(const ArrayView& array, Kind kind) {
    const std::size_t begin = count_of(kind);
    const Outcome outcome = values_.append_array(array, kind, message_);
    if (outcome != Outcome::good) return outcome;
    const std::size_t row = array.count() / array.rows();
    for (std::size_t i = 0; i < array.rows(); ++i) {
      message_.features.push_back({kind, begin + i * row, begin + (i + 1) * row});
    }
    return Outcome::good;
  }

  Outcome append(MapEntry& entry, nb::handle value, Kind kind, bool steps) {
    message_.features.resize(entry.begin);
    return steps ? append_steps(value, kind) : append_feature(value, kind, 0);
  }

  // Reads a value into an entry. False if it has to be made simpler first.
  bool read_value(MapEntry& entry, nb::handle name, nb::handle value, bool steps) {
    entry.begin = message_.features.size();
    if (steps && !has_steps(value)) return false;
    if (!is_without_kind(value, steps)) {
      const Kind named = named_kind(name);
      Kind kind = named == Kind::none ? values_.first_kind(value) : named;
      Outcome outcome = Outcome::unknown;
      if (kind != Kind::none) outcome = append(entry, value, kind, steps);
      if (outcome != Outcome::good) {
        Contents found;
        values_.look_at(value, steps, found);
        if (found.too_deep) refuse_value(Outcome::too_deep, kind, name);
        if (found.unknown) {
          message_.features.resize(entry.begin);
          return false;
        }
        const Kind settled = named == Kind::none ? settle_kind(found, value, name, steps) : named;
        if (settled != kind || kind == Kind::none) {
          kind = settled;
          outcome = append(entry, value, kind, steps);
        }
      }
      if (outcome != Outcome::good) refuse_value(outcome, kind, name);
    } else if (!steps) {
      message_.features.push_back({});
    }
    entry.end = message_.features.size();
    return true;
  }

  // Whether no kind is asked for: None, or no steps.
  bool is_without_kind(nb::handle value, bool steps) const {
    if (!steps) return value.is_none();
    if (values_.is_array(value)) return values_.view_of(value).rows() == 0;
    return ValueReader::size_of(value) == 0;
  }

  bool has_steps(nb::handle value) const {
    if (ValueReader::is_list(value)) return true;
    if (!values_.is_array(value)) return false;
    const ArrayView array = values_.view_of(value);
    return array.kind() != Kind::none && array.rank() > 0;
  }

  // ---- dicts ----

  void read_part(MessagePart& part, nb::handle features, bool steps) {
    part.present = !features.is_none();
    if (!part.present) return;
    if (!PyDict_Check(features.ptr())) throw nb::type_error("features must be in a dict");
    const auto size = static_cast<std::size_t>(PyDict_Size(features.ptr()));
    part.entries.reserve(size);
    message_.features.reserve(message_.features.size() + size);
    values_.reserve(2 * size);
    Py_ssize_t at = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (PyDict_Next(features.ptr(), &at, &key, &value)) {
      nb::object name = name_of(key);
      part.entries.push_back({bytes_of(name), 0, 0});
      if (!read_value(part.entries.back(), name, value, steps)) {
        late_.push_back({&part, part.entries.size() - 1, name, value});
        values_.hold(nb::borrow<nb::object>(value));
      }
      values_.hold(std::move(name));
    }
  }

  // A feature's name as a str of no other class, whose methods are known.
  nb::object name_of(nb::handle key) const {
    if (PyUnicode_CheckExact(key.ptr())) return nb::borrow<nb::object>(key);
    nb::object name;
    if (PyUnicode_Check(key.ptr())) {
      name = nb::steal<nb::object>(PyUnicode_FromObject(key.ptr()));
    } else if (PyBytes_Check(key.ptr())) {
      name = nb::steal<nb::object>(
          PyUnicode_DecodeUTF8(PyBytes_AsString(key.ptr()), PyBytes_Size(key.ptr()), nullptr));
    } else {
      refuse(PyExc_TypeError, "a name must be a str, not " + name_of_type(key), key);
    }
    if (name.is_valid()) return name;
    PyErr_Clear();
    refuse(PyExc_ValueError, "the name is not UTF-8", key);
  }

  Bytes bytes_of(nb::handle name) const {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
    if (data == nullptr) {
      PyErr_Clear();
      refuse(PyExc_ValueError, "the name cannot be encoded as UTF-8", name);
    }
    return {reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(size)};
  }

  // ---- values of other types ----

  void read_late_values() {
    for (const Late& late : late_) {
      const bool steps = late.part == &message_.sequence;
      nb::object simple = simplify(late, steps);
      if (!read_value(late.part->entries[late.entry], late.name, simple, steps)) {
        refuse(PyExc_TypeError, "a " + name_of_type(late.value) + " cannot be stored", late.name);
      }
      values_.hold(std::move(simple));
    }
  }

  // What a value says of itself gets its place, and stays the error that it is.
  nb::object simplify(const Late& late, bool steps) const {
    try {
      return simplify_(late.value, nb::bool_(steps));
    } catch (nb::python_error& error) {
      for (PyObject* type : {PyExc_TypeError, PyExc_ValueError}) {
        if (!error.matches(type)) continue;
        const auto reason = nb::steal<nb::object>(PyObject_Str(error.value().ptr()));
        const char* text =
            reason.is_valid() ? PyUnicode_AsUTF8AndSize(reason.ptr(), nullptr) : nullptr;
        if (text == nullptr) PyErr_Clear();
        const std::string said = text == nullptr ? "the value cannot be read" : text;
        nb::raise_from(error, type, "%s", (said + place_of(late.name)).c_str());
      }
      throw;
    }
  }

  // ---- the message ----

  nb::object write() {
    if (const auto twice = encoder_.sort(message_)) {
      const auto name = nb::steal<nb::object>(
          PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(twice->data()),
                               static_cast<Py_ssize_t>(twice->size()), nullptr));
      refuse(PyExc_ValueError, "the name is there twice", name);
    }
    const auto size = encoder_.measure(message_);
    if (!size) refuse(PyExc_ValueError, "a message of 2 GiB or more cannot be serialized", {});
    auto out =
        nb::steal<nb::object>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(*size)));
    if (!out.is_valid()) nb::raise_python_error();
    const MutableBytes memory(reinterpret_cast<std::byte*>(PyBytes_AsString(out.ptr())), *size);
    if (*size < kLongBytes) {
      encoder_.write(message_, memory);
    } else {
      const nb::gil_scoped_release unlocked;
      encoder_.write(message_, memory);
    }
    return out;
  }

  nb::handle kinds_;
  nb::handle simplify_;
  Py_ssize_t position_ = -1;
  ValueReader values_;
  std::vector<Late> late_;
  Message message_;
  MessageEncoder encoder_;
};

nb::list bind_encode_messages(const nb::list& contexts, const nb::object& sequences,
                              const nb::object& kinds, bool numbered, const nb::object& array_type,
                              const nb::object& scalar_type, const nb::object& simplify) {
  MessageReader reader(kinds, array_type, scalar_type, simplify);
  nb::list messages;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const nb::object context = contexts[i];
    const nb::object sequence = sequences.is_none() ? nb::none() : nb::object(sequences[i]);
    messages.append(reader.encode(context, sequence, numbered ? static_cast<Py_ssize_t>(i) : -1));
  }
  return messages;
}

}  // namespace

void bind_encode(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "encode_messages", &bind_encode_messages, "contexts"_a, "sequences"_a.none(),
      "kinds"_a.none(), "numbered"_a, "array_type"_a, "scalar_type"_a, "simplify"_a,
      nb::sig("def encode_messages(contexts: list[dict[object, object] | None], "
              "sequences: list[dict[object, object] | None] | None, kinds: dict[str, int] | None, "
              "numbered: bool, array_type: type, scalar_type: type, simplify: object) "
              "-> list[bytes]"),
      "Serializes Examples, or SequenceExamples if there are `sequences` as well, of dicts; None\n"
      "is a part that is not set. `kinds` gives field numbers in Feature by name; errors say the\n"
      "example's number if that is asked for. `simplify(value, steps)` is called for values of\n"
      "other types than Python's own and NumPy's two: `array_type`, `scalar_type` and its heirs.");
}

}  // namespace tio
