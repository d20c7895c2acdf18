#include "example/encoder.h"

#include <algorithm>

#include "example/fields.h"
#include "wire/field.h"

namespace tio {
namespace {

constexpr std::uint64_t kMaxBytes = 0x7fffffff;

constexpr std::uint32_t tag_of(Kind kind) {
  return wire::tag(static_cast<std::uint32_t>(kind), wire::delimited);
}

std::uint64_t varint_bytes(std::uint64_t value) {
  const auto bits = static_cast<unsigned>(64 - __builtin_clzll(value | 1));
  return (bits * 9 + 64) / 64;
}

// Returns the size of a field with a length, including its one-byte tag.
std::uint64_t delimited_bytes(std::uint64_t payload) { return 1 + varint_bytes(payload) + payload; }

// Returns the size of a Feature's list with this payload. Packed numbers are one field, or none if
// there are no numbers.
std::uint64_t list_bytes(Kind kind, std::uint64_t payload) {
  return kind == Kind::bytes || payload == 0 ? payload : delimited_bytes(payload);
}

std::uint64_t feature_bytes(Kind kind, std::uint64_t payload) {
  return kind == Kind::none ? 0 : delimited_bytes(list_bytes(kind, payload));
}

std::uint64_t entry_bytes(const MapEntry& entry, std::uint64_t value) {
  return delimited_bytes(entry.key.size()) + delimited_bytes(value);
}

// Returns the first eight bytes of a key as a number, so that most comparisons need no memcmp.
std::uint64_t prefix_of(Bytes key) {
  std::uint64_t word = 0;
  if (!key.empty()) std::memcpy(&word, key.data(), std::min<std::size_t>(key.size(), 8));
  return __builtin_bswap64(word);
}

int compare(Bytes a, Bytes b) {
  const std::size_t common = std::min(a.size(), b.size());
  const int order = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
  if (order != 0) return order;
  return a.size() < b.size() ? -1 : static_cast<int>(a.size() > b.size());
}

// Writes to memory of the measured size.
class Writer {
 public:
  explicit Writer(MutableBytes out) : at_(out.data()) {}

  void put(std::byte byte) { *at_++ = byte; }

  void put_varint(std::uint64_t value) {
    while (value >= 0x80) {
      put(static_cast<std::byte>(value | 0x80));
      value >>= 7;
    }
    put(static_cast<std::byte>(value));
  }

  // All tags of these messages take one byte.
  void put_header(std::uint32_t tag, std::uint64_t payload) {
    put(static_cast<std::byte>(tag));
    put_varint(payload);
  }

  void put_bytes(const void* data, std::size_t size) {
    if (size != 0) std::memcpy(at_, data, size);
    at_ += size;
  }

  void put_delimited(std::uint32_t tag, Bytes payload) {
    put_header(tag, payload.size());
    put_bytes(payload.data(), payload.size());
  }

 private:
  std::byte* at_;
};

void write_values(Writer& out, const Message& message, const ValueRun& run, std::uint64_t payload) {
  if (run.kind == Kind::bytes) {
    for (std::size_t i = run.begin; i < run.end; ++i)
      out.put_delimited(fields::kListValue, message.bytes[i]);
    return;
  }
  if (payload == 0) return;
  out.put_header(fields::kListValue, payload);
  if (run.kind == Kind::floats) {
    out.put_bytes(message.floats.data() + run.begin, payload);
    return;
  }
  for (std::size_t i = run.begin; i < run.end; ++i) {
    out.put_varint(static_cast<std::uint64_t>(message.ints[i]));
  }
}

void write_feature(Writer& out, const Message& message, const ValueRun& run,
                   std::uint64_t payload) {
  if (run.kind == Kind::none) return;
  out.put_header(tag_of(run.kind), list_bytes(run.kind, payload));
  write_values(out, message, run, payload);
}

}  // namespace

void Message::clear() {
  context.entries.clear();
  sequence.entries.clear();
  features.clear();
  ints.clear();
  floats.clear();
  bytes.clear();
}

std::optional<Bytes> MessageEncoder::sort_part(MessagePart& part) {
  std::vector<MapEntry>& entries = part.entries;
  sort_keys_.clear();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    sort_keys_.push_back({prefix_of(entries[i].key), i});
  }
  std::sort(sort_keys_.begin(), sort_keys_.end(), [&](const SortKey& a, const SortKey& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    return compare(entries[a.entry].key, entries[b.entry].key) < 0;
  });
  sorted_.clear();
  for (const SortKey& key : sort_keys_) sorted_.push_back(entries[key.entry]);
  entries.swap(sorted_);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (compare(entries[i - 1].key, entries[i].key) == 0) return entries[i].key;
  }
  return std::nullopt;
}

std::optional<Bytes> MessageEncoder::sort(Message& message) {
  if (const auto twice = sort_part(message.context)) return twice;
  return sort_part(message.sequence);
}

bool MessageEncoder::measure_feature(const Message& message, const ValueRun& run) {
  std::uint64_t payload = 0;
  switch (run.kind) {
    case Kind::none: break;
    case Kind::floats: payload = 4 * (run.end - run.begin); break;
    case Kind::ints:
      for (std::size_t i = run.begin; i < run.end; ++i) {
        payload += varint_bytes(static_cast<std::uint64_t>(message.ints[i]));
      }
      break;
    case Kind::bytes:
      for (std::size_t i = run.begin; i < run.end; ++i) {
        payload += delimited_bytes(message.bytes[i].size());
        // Views may overlap, so the sum may exceed the size of memory.
        if (payload > kMaxBytes) return false;
      }
      break;
  }
  payloads_.push_back(payload);
  return payload <= kMaxBytes;
}

bool MessageEncoder::measure_part(const Message& message, const MessagePart& part, bool has_steps,
                                  std::uint64_t& total) {
  if (!part.is_present) return true;
  std::uint64_t bytes = 0;
  for (const MapEntry& entry : part.entries) {
    std::uint64_t value = 0;
    for (std::size_t i = entry.begin; i < entry.end; ++i) {
      const std::uint64_t feature = feature_bytes(message.features[i].kind, payloads_[i]);
      value += has_steps ? delimited_bytes(feature) : feature;
    }
    values_.push_back(value);
    bytes += delimited_bytes(entry_bytes(entry, value));
    if (bytes > kMaxBytes) return false;
  }
  parts_[has_steps] = bytes;
  total += delimited_bytes(bytes);
  return true;
}

std::optional<std::size_t> MessageEncoder::measure(const Message& message) {
  payloads_.clear();
  values_.clear();
  for (const ValueRun& run : message.features) {
    if (!measure_feature(message, run)) return std::nullopt;
  }
  std::uint64_t total = 0;
  const bool fits = measure_part(message, message.context, false, total) &&
                    measure_part(message, message.sequence, true, total);
  return fits && total <= kMaxBytes ? std::optional(total) : std::nullopt;
}

void MessageEncoder::write(const Message& message, MutableBytes memory) const {
  Writer out(memory);
  const std::uint64_t* value = values_.data();
  const auto write_part = [&](const MessagePart& part, std::uint32_t tag, bool has_steps) {
    if (!part.is_present) return;
    out.put_header(tag, parts_[has_steps]);
    for (const MapEntry& entry : part.entries) {
      out.put_header(fields::kMapEntry, entry_bytes(entry, *value));
      out.put_delimited(fields::kMapKey, entry.key);
      out.put_header(fields::kMapValue, *value++);
      for (std::size_t i = entry.begin; i < entry.end; ++i) {
        const ValueRun& run = message.features[i];
        if (has_steps) out.put_header(fields::kStep, feature_bytes(run.kind, payloads_[i]));
        write_feature(out, message, run, payloads_[i]);
      }
    }
  };
  write_part(message.context, fields::kContext, false);
  write_part(message.sequence, fields::kFeatureLists, true);
}

}  // namespace tio
