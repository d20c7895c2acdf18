#include "example/byte_format.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

#include "example/fields.h"
#include "wire/cursor.h"
#include "wire/field.h"

namespace tio {
namespace {

using namespace std::string_view_literals;

// ---- text ----

// Bytes that are text in every sequence of characters.
constexpr bool is_plain(std::uint8_t byte) {
  return static_cast<std::uint8_t>(byte - 0x20) < 0x5f || byte == '\t' || byte == '\n' ||
         byte == '\r';
}

// Returns the offset of the first byte from `at` on that is not plain, or of the end.
std::size_t skip_plain(Bytes value, std::size_t at) {
  constexpr std::size_t kBlock = 32;
  while (value.size() - at >= kBlock) {
    const auto block = load<std::array<std::uint8_t, kBlock>>(value, at);
    unsigned others = 0;
    for (const std::uint8_t byte : block) others |= is_plain(byte) ? 0U : 1U;
    if (others != 0) break;
    at += kBlock;
  }
  while (at < value.size() && is_plain(load<std::uint8_t>(value, at))) ++at;
  return at;
}

// Reads a character of UTF-8, as strict as Python: in its shortest form, and no surrogate.
bool read_character(Bytes value, std::size_t& at, std::uint32_t& character) {
  constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  const auto lead = load<std::uint8_t>(value, at);
  if (lead < 0x80) {
    character = lead;
    ++at;
    return true;
  }
  const unsigned more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc0 || lead > 0xf4 || value.size() - at <= more) return false;
  character = lead & (0x3fU >> more);
  for (unsigned i = 1; i <= more; ++i) {
    const auto next = load<std::uint8_t>(value, at + i);
    if ((next & 0xc0) != 0x80) return false;
    character = character << 6 | (next & 0x3fU);
  }
  at += more + 1;
  return character >= kSmallest[more] && character < CharacterSet::kCharacters &&
         (character < 0xd800 || character > 0xdfff);
}

bool is_text(Bytes value, const CharacterSet& printable) {
  for (std::size_t at = skip_plain(value, 0); at < value.size(); at = skip_plain(value, at)) {
    std::uint32_t character = 0;
    if (!read_character(value, at, character) || !printable.contains(character)) return false;
  }
  return true;
}

// ---- files ----

struct Signature {
  std::string_view start;
  ByteFormat format;
};

constexpr Signature kSignatures[] = {
    {"\xff\xd8\xff"sv, ByteFormat::jpeg},
    {"\x89PNG\r\n\x1a\n"sv, ByteFormat::png},
    {"GIF87a"sv, ByteFormat::gif},
    {"GIF89a"sv, ByteFormat::gif},
    {"BM"sv, ByteFormat::bmp},
    {"II*\0"sv, ByteFormat::tiff},
    {"MM\0*"sv, ByteFormat::tiff},
    {"fLaC"sv, ByteFormat::flac},
    {"OggS"sv, ByteFormat::ogg},
    {"ID3"sv, ByteFormat::mp3},
    {"\x93NUMPY"sv, ByteFormat::numpy},
    {"PK\x03\x04"sv, ByteFormat::zip},
    {"\x1f\x8b\x08"sv, ByteFormat::gzip},
};
// The name that follows RIFF and a size.
constexpr Signature kRiffs[] = {
    {"WEBP"sv, ByteFormat::webp}, {"WAVE"sv, ByteFormat::wav}, {"AVI "sv, ByteFormat::avi}};

// Returns whether bytes may be a pickle, of protocol 2 to 5.
bool is_pickle(std::string_view text) {
  return text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 && text.back() == '.';
}

std::optional<ByteFormat> file_format(Bytes value) {
  const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  const bool is_riff = text.starts_with("RIFF");
  const std::string_view rest = is_riff ? text.substr(std::min<std::size_t>(8, text.size())) : text;
  for (const auto& [start, format] :
       is_riff ? std::span<const Signature>(kRiffs) : std::span<const Signature>(kSignatures)) {
    if (rest.starts_with(start)) return format;
  }
  if (is_pickle(text)) return ByteFormat::pickle;
  return std::nullopt;
}

// ---- serialized tensors ----

bool is_tensor_value(std::uint32_t tag) {
  switch (tag >> 3) {
    case fields::kTensorContent >> 3:
    case fields::kFloatValField:
    case fields::kDoubleValField:
    case fields::kIntValField:
    case fields::kStringValField:
    case fields::kScomplexValField:
    case fields::kInt64ValField:
    case fields::kBoolValField:
    case fields::kDcomplexValField:
    case fields::kHalfValField:
    case fields::kUint32ValField:
    case fields::kUint64ValField: return (tag & 7) == wire::delimited;
    default: return false;
  }
}

// Calls `visit(tag, content)` for each field but groups, which are skipped.
template <class Visit>
bool walk_scalars(Bytes message, Visit&& visit) {
  return wire::walk_tags(message, [&](std::uint32_t tag, Cursor& cursor) {
    Bytes content;
    if ((tag & 7) == wire::delimited) return cursor.read_delimited(content) && visit(tag, content);
    return wire::skip_field(cursor, tag) && ((tag & 7) == wire::group || visit(tag, content));
  });
}

// Returns whether bytes may be a TensorProto as tf.io.serialize_tensor writes it: the dtype, the
// shape, then values. The values are not compared with these.
bool is_tensor(Bytes value) {
  if (load<std::uint8_t>(value, 0) != fields::kTensorDtype) return false;
  std::size_t number = 0;
  const bool is_alike = walk_scalars(value, [&](std::uint32_t tag, Bytes content) {
    if (++number == 1) return true;  // the dtype
    if (number > 2) return is_tensor_value(tag);
    return tag == fields::kTensorShape && walk_scalars(content, [](std::uint32_t inner, Bytes) {
             return inner == fields::kShapeDim;
           });
  });
  return is_alike && number > 1;
}

constexpr std::string_view kNames[] = {
    "empty", "UTF-8 text", "JPEG", "PNG", "GIF",    "BMP",
    "TIFF",  "WebP",       "FLAC", "Ogg", "MP3",    "NumPy array",
    "zip",   "gzip",       "WAV",  "AVI", "pickle", "serialized tensor",
    "bytes"};
static_assert(std::size(kNames) == kByteFormats);

}  // namespace

std::string_view name_of(ByteFormat format) { return kNames[static_cast<std::size_t>(format)]; }

ByteFormat sniff(Bytes value, const CharacterSet& printable) {
  if (value.empty()) return ByteFormat::empty;
  if (is_text(value, printable)) return ByteFormat::text;
  if (const auto format = file_format(value)) return *format;
  return is_tensor(value) ? ByteFormat::tensor : ByteFormat::other;
}

}  // namespace tio
