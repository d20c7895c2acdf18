// Writes the seeds of the target of columns of images: make_image_columns_seeds <folder>.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "encode.h"
#include "image_target.h"
#include "jpeg_writer.h"
#include "png_writer.h"
#include "seed_folder.h"

namespace tio::fuzz {
namespace {

using namespace test;

// Files and the bits of their formats.
std::vector<std::pair<int, std::string>> files(std::mt19937_64& random) {
  std::vector<std::pair<int, std::string>> all;
  for (const auto space : {JCS_YCbCr, JCS_GRAYSCALE, JCS_CMYK}) {
    all.emplace_back(0, write_jpeg({.width = 37, .height = 29, .stored = space}, random));
  }
  const JpegForm progressive{.width = 33, .height = 35, .is_progressive = true};
  all.emplace_back(0, write_jpeg(progressive, random));
  for (const int channels : {1, 3, 4}) {
    const PngForm form{.width = 37, .height = 29, .channels = channels};
    all.emplace_back(1, write_png(form, make_png_rows(form, random)));
  }
  std::string pixels(std::size_t{33} * 20 * 3, '\0');
  for (char& level : pixels) level = static_cast<char>(random());
  all.emplace_back(2, pixels);
  all.emplace_back(2 | 128, pixels);
  return all;
}

// Options of columns: each request as a known view, and each rule; with all flags in turn.
std::vector<std::string> columns(std::mt19937_64& random) {
  std::vector<std::string> all;
  for (int flags = 0; flags < 256; flags += 15) {
    const bool is_placed = (flags & 1) != 0;
    for (const std::string& options : is_placed ? seed_requests() : seed_rules()) {
      const auto byte = [&random] { return static_cast<char>(random()); };
      all.push_back(options + static_cast<char>(flags) + byte() + byte() + byte());
    }
  }
  return all;
}

void write_all(const std::string& path) {
  std::mt19937_64 random(1);
  Folder folder(path);
  const std::vector<std::string> all = columns(random);
  std::size_t next = 0;
  for (const auto& [format, file] : files(random)) {
    for (int round = 0; round < 24; ++round) {
      std::string options;
      options.push_back(static_cast<char>(format | (round % 16) << 2 | (round % 3 == 0 ? 64 : 0)));
      options += raw({32, round == 5 ? 255 : 0, 128});
      for (int column = 0; column < 4; ++column) options += all[next++ % all.size()];
      folder.write(options + file);
    }
  }
}

}  // namespace
}  // namespace tio::fuzz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: make_image_columns_seeds <folder>\n";
    return 2;
  }
  tio::fuzz::write_all(arguments[1]);
  return 0;
}
