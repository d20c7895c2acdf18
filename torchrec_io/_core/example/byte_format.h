// Guesses of the format of bytes: an image, text, a serialized tensor. They are not checks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "wire/bytes.h"

namespace tio {

enum class ByteFormat : std::uint8_t {
  empty,
  text,
  jpeg,
  png,
  gif,
  bmp,
  tiff,
  webp,
  flac,
  ogg,
  mp3,
  numpy,
  zip,
  gzip,
  wav,
  avi,
  pickle,
  tensor,
  other
};

inline constexpr std::size_t kByteFormats = static_cast<std::size_t>(ByteFormat::other) + 1;

constexpr bool is_image(ByteFormat format) {
  return format >= ByteFormat::jpeg && format <= ByteFormat::webp;
}

// Returns the name of a format, to show it.
std::string_view name_of(ByteFormat format);

// A set of Unicode characters.
class CharacterSet {
 public:
  static constexpr std::uint32_t kCharacters = 0x110000;
  static constexpr std::size_t kBytes = kCharacters / 8;

  // Takes kBytes bytes: a bit for each character, the lowest bit first.
  explicit CharacterSet(Bytes bits) : bits_(bits.begin(), bits.end()) { bits_.resize(kBytes); }

  bool contains(std::uint32_t character) const {
    return character < kCharacters &&
           (static_cast<unsigned>(bits_[character / 8]) >> character % 8 & 1U) != 0;
  }

 private:
  std::vector<std::byte> bits_;
};

// Returns the format that bytes seem to have. Text is UTF-8 of printable characters, tabs and line
// breaks.
ByteFormat sniff(Bytes value, const CharacterSet& printable);

}  // namespace tio
