// Writes the seeds of the JPEG target: make_jpeg_seeds <folder>.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "encode.h"
#include "image_target.h"
#include "jpeg_writer.h"
#include "seed_folder.h"

namespace tio::fuzz {
namespace {

using namespace test;

std::vector<JpegForm> forms() {
  std::vector<JpegForm> all;
  JpegForm form{.width = 37, .height = 29};
  for (const auto& [across, down] : {std::pair(1, 1), {2, 1}, {2, 2}, {1, 2}, {4, 1}, {3, 2}}) {
    form.across = across;
    form.down = down;
    all.push_back(form);
  }
  for (const auto space : {JCS_GRAYSCALE, JCS_RGB, JCS_CMYK, JCS_YCCK}) {
    all.push_back({.width = 21, .height = 17, .stored = space});
  }
  all.push_back({.width = 33, .height = 35, .is_progressive = true});
  all.push_back({.width = 19, .height = 23, .stored = JCS_CMYK, .is_progressive = true});
  all.push_back({.width = 50, .height = 40, .restart = 1});
  all.push_back({.width = 1, .height = 1});
  all.push_back({.width = 1, .height = 40});
  JpegForm longest{.width = 65500, .height = 1, .stored = JCS_GRAYSCALE, .quality = 1, .noise = 1};
  all.push_back(longest);
  std::swap(longest.width, longest.height);
  all.push_back(longest);
  return all;
}

// Files that are refused, or decoded up to their damage.
std::vector<std::string> bad_files(std::mt19937_64& random) {
  const std::string end = raw({0xff, 0xd9});
  const std::string file = write_jpeg({.width = 40, .height = 30}, random);
  const std::string scans = write_jpeg({.width = 16, .height = 16, .is_progressive = true}, random);
  const std::size_t last = scans.rfind(raw({0xff, 0xda}));
  std::string bomb = scans.substr(0, scans.size() - 2);
  for (int i = 0; i < 20; ++i) bomb += scans.substr(last, scans.size() - 2 - last);
  std::string precise = file;
  precise[file.find(raw({0xff, 0xc0})) + 4] = 12;
  std::string arithmetic = file;
  arithmetic[file.find(raw({0xff, 0xc0})) + 1] = static_cast<char>(0xc9);
  std::string wrong = file;
  for (std::size_t i = 0; i < 20; ++i) wrong[file.size() * 2 / 3 + i] = static_cast<char>(0xff);
  return {file.substr(0, file.size() / 2),
          file.substr(0, file.size() * 3 / 4) + end,
          scans.substr(0, scans.size() * 3 / 4) + end,
          bomb + end,
          precise,
          arithmetic,
          wrong,
          file.substr(0, 2) + raw({0xff, 0xbf}) + file.substr(2)};
}

void write_all(const std::string& path) {
  std::mt19937_64 random(1);
  Folder folder(path);
  std::vector<std::string> files = bad_files(random);
  for (const JpegForm& form : forms()) files.push_back(write_jpeg(form, random));
  for (const std::string& file : files) {
    for (const std::string& request : seed_requests()) folder.write(request + file);
    for (const std::string& rule : seed_rules()) folder.write(rule + file);
  }
}

}  // namespace
}  // namespace tio::fuzz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: make_jpeg_seeds <folder>\n";
    return 2;
  }
  tio::fuzz::write_all(arguments[1]);
  return 0;
}
