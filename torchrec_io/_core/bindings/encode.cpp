// Serializes dicts of Python values. A Python function converts values that ValueReader does not
// know. It may run any code and change the dicts and lists that are being read. So it is called
// after everything else was read, and objects that a view refers to are held.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/python_values.h"
#include "example/encoder.h"

namespace tio {
namespace {

// Larger messages are written with the GIL released.
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
  return std::string(utf8_of(name).value_or("value of an unknown type"));
}

// Returns the repr() of a value in ASCII, truncated if it is long.
std::string describe(nb::handle value) {
  constexpr std::size_t kMaxSize = 80;
  const auto repr = nb::steal<nb::object>(PyObject_ASCII(value.ptr()));
  const auto text = utf8_of(repr);
  if (!text) return "a value of type " + name_of_type(value);  // as for an int with many digits
  const std::string whole(*text);
  return whole.size() <= kMaxSize ? whole : whole.substr(0, kMaxSize) + "...";
}

// The kinds of features, by name.
class KindMap {
 public:
  // Names that are not UTF-8 cannot be stored, so they are ignored.
  KindMap(const std::optional<nb::dict>& kinds) {
    for (const auto& [name, kind] : kinds.value_or(nb::dict())) {
      if (const auto text = utf8_of(name)) kinds_.emplace(*text, nb::cast<Kind>(kind));
    }
  }

  // Returns none for names that are missing.
  Kind find(Bytes name) const {
    if (kinds_.empty()) return Kind::none;
    const auto found =
        kinds_.find(std::string_view(reinterpret_cast<const char*>(name.data()), name.size()));
    return found == kinds_.end() ? Kind::none : found->second;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };
  std::unordered_map<std::string, Kind, Hash, std::equal_to<>> kinds_;
};

// The kinds that the features of earlier messages have, by name: those of the context, and those of
// the sequence.
using KindsOfPart = std::map<std::string, Kind, std::less<>>;
struct KindsSeen {
  KindsOfPart context;
  KindsOfPart sequence;
  // Names and kinds of the last message. Most messages have the same, as the same objects.
  std::vector<nb::object> names;
  std::vector<Kind> kinds;
};

// Options of an encoder, which are the same for all messages.
struct EncoderOptions {
  KindMap kinds;
  KindMap list_kinds;  // of feature lists
  nb::object array_type;
  nb::object scalar_type;
  nb::object simplify;
  bool is_of_writer;  // whether features keep their kinds in all calls, or only in one
  KindsSeen seen = {};
};

// Reads the values of messages, one after another.
class MessageReader {
 public:
  MessageReader(const EncoderOptions& options, KindsSeen* seen)
      : options_(options), seen_(seen), values_(options.array_type, options.scalar_type) {}

  // Serializes two dicts, each of which may be None. Errors name the position unless it is
  // negative.
  nb::object encode(nb::handle context, nb::handle sequence, Py_ssize_t position) {
    position_ = position;
    message_.clear();
    values_.clear();
    deferred_.clear();
    names_.clear();
    read_part(message_.context, context, false);
    names_.push_back(nb::none());  // the end of the context
    read_part(message_.sequence, sequence, true);
    read_deferred_values();
    return write();
  }

 private:
  // A value that Python code must convert.
  struct Deferred {
    MessagePart* part;
    std::size_t entry;
    nb::handle name;
    nb::handle value;
  };

  // ---- errors ----

  // Raises an error that names the example, and the feature if there is a name.
  [[noreturn]] void reject(PyObject* type, const std::string& reason, nb::handle name) const {
    PyErr_SetString(type, (reason + describe_position(name)).c_str());
    nb::raise_python_error();
  }

  std::string describe_position(nb::handle name) const {
    std::string text;
    if (position_ >= 0) text = "example " + std::to_string(position_);
    if (name.is_valid()) text += (text.empty() ? "feature " : ", feature ") + describe(name);
    return text.empty() ? text : " (" + text + ")";
  }

  [[noreturn]] void reject_value(Conversion result, Kind kind, nb::handle name) const {
    if (result == Conversion::too_deep) {
      const std::string limit = std::to_string(ValueReader::kMaxDepth);
      reject(PyExc_ValueError, "lists are nested more than " + limit + " deep", name);
    }
    const bool is_array = !values_.misfit().is_valid();
    const std::string value = is_array ? "an array of numbers" : describe(values_.misfit());
    const std::string stored = stored_name(kind);
    if (result == Conversion::out_of_range) {
      reject(PyExc_ValueError, value + " does not fit in " + stored, name);
    }
    if (result == Conversion::not_text) {
      reject(PyExc_ValueError, value + " cannot be encoded as UTF-8", name);
    }
    if (result == Conversion::uneven) {
      reject(PyExc_ValueError,
             "the rows of nested lists would be lost, because they have different lengths: store "
             "one list, and the lengths as another feature",
             name);
    }
    reject(PyExc_TypeError, value + " cannot be stored as " + stored, name);
  }

  // ---- features ----

  // Returns the kind of examined values, or none if all of them are steps without a kind.
  Kind resolve_kind(const Contents& found, nb::handle value, nb::handle name,
                    bool has_steps) const {
    if (found.bytes && (found.ints || found.floats)) {
      reject(PyExc_TypeError, "the values are both numbers and bytes", name);
    }
    if (found.bytes) return Kind::bytes;
    if (found.floats) return Kind::floats;
    if (found.ints) return Kind::ints;
    if (found.of_empty != Kind::none) return found.of_empty;
    if (!has_steps || !is_all_none(value)) {
      reject(PyExc_ValueError, "an empty list has no kind: specify one in kinds", name);
    }
    return Kind::none;
  }

  static bool is_all_none(nb::handle steps) {
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

  // Appends a value as one Feature. None makes a Feature without a kind.
  Conversion append_feature(nb::handle value, Kind kind, int depth) {
    if (value.is_none()) {
      message_.features.push_back({});
      return Conversion::good;
    }
    const std::size_t begin = count_of(kind);
    const Conversion result = values_.append(value, kind, message_, depth);
    message_.features.push_back({kind, begin, count_of(kind)});
    return result;
  }

  Conversion append_steps(nb::handle value, Kind kind) {
    if (values_.is_array(value)) return append_rows(values_.view_of(value), kind);
    for (Py_ssize_t i = 0; i < ValueReader::size_of(value); ++i) {
      const Conversion result = append_feature(ValueReader::item_of(value, i), kind, 1);
      if (result != Conversion::good) return result;
    }
    return Conversion::good;
  }

  Conversion append_rows(const ArrayView& array, Kind kind) {
    const std::size_t begin = count_of(kind);
    const Conversion result = values_.append_array(array, kind, message_);
    if (result != Conversion::good) return result;
    const std::size_t row = array.count() / array.rows();
    for (std::size_t i = 0; i < array.rows(); ++i) {
      message_.features.push_back({kind, begin + i * row, begin + (i + 1) * row});
    }
    return Conversion::good;
  }

  Conversion append(MapEntry& entry, nb::handle value, Kind kind, bool has_steps) {
    message_.features.resize(entry.begin);
    return has_steps ? append_steps(value, kind) : append_feature(value, kind, 0);
  }

  // Reads a value into an entry. Returns false if Python code must convert it first.
  bool read_value(MapEntry& entry, nb::handle name, nb::handle value, bool has_steps) {
    entry.begin = message_.features.size();
    if (has_steps && !can_have_steps(value)) return false;
    if (!is_without_kind(value, has_steps)) {
      const KindMap& kinds = has_steps ? options_.list_kinds : options_.kinds;
      const Kind named = kinds.find(entry.key);
      Kind kind = named == Kind::none ? values_.first_kind(value) : named;
      Conversion result = Conversion::unknown;
      if (kind != Kind::none) result = append(entry, value, kind, has_steps);
      if (result != Conversion::good) {
        Contents found;
        values_.find_kinds(value, has_steps, found);
        if (found.too_deep) reject_value(Conversion::too_deep, kind, name);
        if (found.unknown) {
          message_.features.resize(entry.begin);
          return false;
        }
        const Kind settled =
            named == Kind::none ? resolve_kind(found, value, name, has_steps) : named;
        if (settled != kind || kind == Kind::none) {
          kind = settled;
          result = append(entry, value, kind, has_steps);
        }
      }
      if (result != Conversion::good) reject_value(result, kind, name);
    } else if (!has_steps) {
      message_.features.push_back({});
    }
    entry.end = message_.features.size();
    return true;
  }

  // Whether a value needs no kind: None, or no steps.
  bool is_without_kind(nb::handle value, bool has_steps) const {
    if (!has_steps) return value.is_none();
    if (values_.is_array(value)) return values_.view_of(value).rows() == 0;
    return ValueReader::size_of(value) == 0;
  }

  bool can_have_steps(nb::handle value) const {
    if (ValueReader::is_list(value)) return true;
    if (!values_.is_array(value)) return false;
    const ArrayView array = values_.view_of(value);
    return array.kind() != Kind::none && array.rank() > 0;
  }

  // ---- dicts ----

  void read_part(MessagePart& part, nb::handle features, bool has_steps) {
    part.is_present = !features.is_none();
    if (!part.is_present) return;
    if (!PyDict_Check(features.ptr())) throw nb::type_error("features must be a dict");
    read_dict(part, features, has_steps, {}, 0);
  }

  // Reads a dict. The names of the features in nested dicts are paths, joined by "/".
  void read_dict(MessagePart& part, nb::handle features, bool has_steps, nb::handle outer,
                 int depth) {
    const auto size = static_cast<std::size_t>(PyDict_Size(features.ptr()));
    part.entries.reserve(size);
    message_.features.reserve(message_.features.size() + size);
    values_.reserve(size);
    names_.reserve(names_.size() + size + 1);
    Py_ssize_t at = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (PyDict_Next(features.ptr(), &at, &key, &value)) {
      nb::object name = name_of(key);
      if (outer.is_valid()) name = joined_name(outer, name);
      part.entries.push_back({bytes_of(name), 0, 0});
      if (!read_value(part.entries.back(), name, value, has_steps)) {
        read_other(part, name, value, has_steps, depth);
      }
      names_.push_back(std::move(name));
    }
  }

  // Reads a dict of features, or defers a value that Python code must convert. This and the next
  // function are rarely called, and would slow the loop down if they were inlined.
  [[gnu::noinline]] void read_other(MessagePart& part, nb::handle name, nb::handle value,
                                    bool has_steps, int depth) {
    const bool is_nested = PyDict_Check(value.ptr()) && PyDict_Size(value.ptr()) > 0;
    if (is_nested && depth < ValueReader::kMaxDepth) {
      part.entries.pop_back();
      read_dict(part, value, has_steps, name, depth + 1);
      return;
    }
    deferred_.push_back({&part, part.entries.size() - 1, name, value});
    values_.hold(nb::borrow<nb::object>(value));
  }

  [[gnu::noinline]] static nb::object joined_name(nb::handle outer, nb::handle name) {
    auto joined = nb::steal<nb::object>(PyUnicode_FromFormat("%U/%U", outer.ptr(), name.ptr()));
    if (!joined.is_valid()) nb::raise_python_error();
    return joined;
  }

  // Returns the name of a feature as an exact str, which has no Python methods of its own.
  nb::object name_of(nb::handle key) const {
    if (PyUnicode_CheckExact(key.ptr())) return nb::borrow<nb::object>(key);
    nb::object name;
    if (PyUnicode_Check(key.ptr())) {
      name = nb::steal<nb::object>(PyUnicode_FromObject(key.ptr()));
    } else if (PyBytes_Check(key.ptr())) {
      name = nb::steal<nb::object>(
          PyUnicode_DecodeUTF8(PyBytes_AsString(key.ptr()), PyBytes_Size(key.ptr()), nullptr));
    } else {
      reject(PyExc_TypeError, "a feature name must be a str, got " + name_of_type(key), key);
    }
    if (name.is_valid()) return name;
    PyErr_Clear();
    reject(PyExc_ValueError, "the feature name is not UTF-8", key);
  }

  Bytes bytes_of(nb::handle name) const {
    const auto text = utf8_of(name);
    if (!text) reject(PyExc_ValueError, "the feature name cannot be encoded as UTF-8", name);
    return std::as_bytes(std::span(*text));
  }

  // ---- values of other types ----

  void read_deferred_values() {
    for (const Deferred& deferred : deferred_) {
      const bool has_steps = deferred.part == &message_.sequence;
      nb::object simple = simplify(deferred, has_steps);
      MapEntry& entry = deferred.part->entries[deferred.entry];
      if (!read_value(entry, deferred.name, simple, has_steps)) {
        const std::string type = name_of_type(deferred.value);
        reject(PyExc_TypeError, "a " + type + " cannot be stored", deferred.name);
      }
      values_.hold(std::move(simple));
    }
  }

  // Converts a value with Python code. Adds the example and feature to its TypeError or ValueError.
  nb::object simplify(const Deferred& deferred, bool has_steps) const {
    try {
      return options_.simplify(deferred.value, nb::bool_(has_steps));
    } catch (nb::python_error& error) {
      for (PyObject* type : {PyExc_TypeError, PyExc_ValueError}) {
        if (!error.matches(type)) continue;
        const auto reason = nb::steal<nb::object>(PyObject_Str(error.value().ptr()));
        const std::string message(utf8_of(reason).value_or("the value cannot be read"));
        nb::raise_from(error, type, "%s", (message + describe_position(deferred.name)).c_str());
      }
      throw;
    }
  }

  // ---- the kinds of earlier messages ----

  // Rejects features that had another kind. A message that is rejected adds no kinds.
  void compare_kinds() {
    if (seen_ == nullptr || is_like_last()) return;
    compare_part(message_.context, seen_->context);
    compare_part(message_.sequence, seen_->sequence);
    add_kinds(message_.context, seen_->context);
    add_kinds(message_.sequence, seen_->sequence);
    seen_->names = names_;
    seen_->kinds.clear();
    for_each_entry([&](const MapEntry& entry) { seen_->kinds.push_back(kind_of(entry)); });
  }

  // Whether the message has the names and kinds of the last one, which is fast to see.
  bool is_like_last() const {
    if (names_.size() != seen_->names.size()) return false;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!names_[i].is(seen_->names[i])) return false;
    }
    bool is_same = true;
    const Kind* kind = seen_->kinds.data();
    for_each_entry([&](const MapEntry& entry) { is_same &= kind_of(entry) == *kind++; });
    return is_same;
  }

  template <class Take>
  void for_each_entry(Take take) const {
    for (const MapEntry& entry : message_.context.entries) take(entry);
    for (const MapEntry& entry : message_.sequence.entries) take(entry);
  }

  void compare_part(const MessagePart& part, const KindsOfPart& seen) const {
    for (const MapEntry& entry : part.entries) {
      const Kind kind = kind_of(entry);
      const auto found = seen.find(text_of(entry.key));
      if (kind == Kind::none || found == seen.end() || found->second == kind) continue;
      reject_kind(found->second, kind, found->first);
    }
  }

  void add_kinds(const MessagePart& part, KindsOfPart& seen) const {
    for (const MapEntry& entry : part.entries) {
      const Kind kind = kind_of(entry);
      if (kind != Kind::none) seen.emplace(text_of(entry.key), kind);
    }
  }

  static std::string_view text_of(Bytes key) {
    return {reinterpret_cast<const char*>(key.data()), key.size()};
  }

  // Returns the kind of the Features of an entry, or none if none of them has a kind.
  Kind kind_of(const MapEntry& entry) const {
    const ValueRun* run = message_.features.data() + entry.begin;
    const ValueRun* end = message_.features.data() + entry.end;
    while (run != end && run->kind == Kind::none) ++run;
    return run == end ? Kind::none : run->kind;
  }

  [[noreturn]] void reject_kind(Kind before, Kind now, std::string_view key) const {
    const auto name = nb::steal<nb::object>(
        PyUnicode_DecodeUTF8(key.data(), static_cast<Py_ssize_t>(key.size()), nullptr));
    const bool are_numbers = before != Kind::bytes && now != Kind::bytes;
    reject(PyExc_TypeError,
           std::string("the values would be stored as ") + stored_name(now) +
               ", but those of an earlier record are " + stored_name(before) + ": " +
               (are_numbers ? "specify \"float32\" in kinds= to store all of them as floats"
                            : "make all values of one type, and specify it in kinds="),
           name);
  }

  // ---- the message ----

  nb::object write() {
    if (const auto twice = encoder_.sort(message_)) {
      const auto name = nb::steal<nb::object>(
          PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(twice->data()),
                               static_cast<Py_ssize_t>(twice->size()), nullptr));
      reject(PyExc_ValueError, "the feature name occurs twice", name);
    }
    const auto size = encoder_.measure(message_);
    if (!size) reject(PyExc_ValueError, "a message of 2 GiB or more cannot be serialized", {});
    compare_kinds();
    auto out =
        nb::steal<nb::object>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(*size)));
    if (!out.is_valid()) nb::raise_python_error();
    const MutableBytes memory(reinterpret_cast<std::byte*>(PyBytes_AsString(out.ptr())), *size);
    if (*size < kLongBytes) {
      encoder_.write(message_, memory);
    } else {
      const ReleasedGil unlocked;
      encoder_.write(message_, memory);
    }
    return out;
  }

  const EncoderOptions& options_;
  KindsSeen* seen_;  // null for a single message
  Py_ssize_t position_ = -1;
  ValueReader values_;
  std::vector<Deferred> deferred_;
  std::vector<nb::object> names_;  // kept alive, because entries refer to their text
  Message message_;
  MessageEncoder encoder_;
};

nb::list encode_messages(EncoderOptions& self, const nb::list& contexts,
                         const nb::object& sequences, bool numbered) {
  KindsSeen of_call;
  MessageReader reader(self, self.is_of_writer ? &self.seen : numbered ? &of_call : nullptr);
  nb::list messages;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const nb::object context = contexts[i];
    const nb::object sequence = sequences.is_none() ? nb::none() : nb::object(sequences[i]);
    messages.append(reader.encode(context, sequence, numbered ? static_cast<Py_ssize_t>(i) : -1));
  }
  return messages;
}

}  // namespace

void bind_encode(nb::module_& m) {
  m.attr("MAX_LIST_DEPTH") = ValueReader::kMaxDepth;
  nb::class_<EncoderOptions>(m, "MessageEncoder", "Encoder of Examples and SequenceExamples.")
      .def(nb::init<std::optional<nb::dict>, std::optional<nb::dict>, nb::object, nb::object,
                    nb::object, bool>(),
           "kinds"_a.none(), "list_kinds"_a.none(), "array_type"_a, "scalar_type"_a, "simplify"_a,
           "is_of_writer"_a,
           nb::sig("def __init__(self, kinds: dict[str, Kind] | None, "
                   "list_kinds: dict[str, Kind] | None, array_type: type, "
                   "scalar_type: type, simplify: collections.abc.Callable[[object, bool], object], "
                   "is_of_writer: bool) -> None"),
           "Args:\n"
           "    kinds: Kind of each feature, by name. The kinds of others follow from their "
           "values.\n"
           "    list_kinds: Kind of each feature list, likewise.\n"
           "    array_type: numpy.ndarray.\n"
           "    scalar_type: numpy.generic.\n"
           "    simplify: Function of a value and whether it has steps. It converts values of "
           "other\n"
           "        types to Python scalars, lists or arrays.\n"
           "    is_of_writer: Whether a feature keeps the kind of its first value in all calls, or "
           "only\n"
           "        among the messages of one call.")
      .def("encode", &encode_messages, "contexts"_a, "sequences"_a.none(), "numbered"_a,
           nb::sig("def encode(self, contexts: list[dict[object, object] | None], "
                   "sequences: list[dict[object, object] | None] | None, numbered: bool) "
                   "-> list[bytes]"),
           "Serialize messages.\n\n"
           "Args:\n"
           "    contexts: Values of each feature, by name; None leaves the part out.\n"
           "    sequences: Steps of each feature list, by name. With None, Examples are made.\n"
           "    numbered: Whether errors name the position of the message.");
}

}  // namespace tio
