// Writes the seeds of the target of PNG decoding: make_png_seeds <folder>.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "encode.h"
#include "image_target.h"
#include "png_writer.h"
#include "seed_folder.h"

namespace tio::fuzz {
namespace {

using namespace test;

std::vector<std::string> good_files(std::mt19937_64& random) {
  std::vector<PngForm> forms;
  for (const int channels : {1, 2, 3, 4}) {
    for (const int pieces : {1, 3}) {
      forms.push_back({.width = 37, .height = 29, .channels = channels, .pieces = pieces});
    }
    for (const int filter : {0, 1, 2, 3, 4}) {
      forms.push_back({.width = 6, .height = 5, .channels = channels, .filters = {filter}});
    }
    forms.push_back({.width = 1, .height = 1, .channels = channels});
    forms.push_back({.width = 1, .height = 40, .channels = channels, .noise = 256});
    forms.push_back({.width = 40, .height = 1, .channels = channels, .noise = 256});
  }
  forms.push_back({.width = 1 << 14, .height = 1, .channels = 1, .noise = 1});
  forms.push_back({.width = 1, .height = 1 << 14, .channels = 1, .noise = 1});
  std::vector<std::string> files;
  for (const PngForm& form : forms) files.push_back(write_png(form, make_png_rows(form, random)));
  return files;
}

std::vector<std::string> bad_files(std::mt19937_64& random) {
  const PngForm form{.width = 9, .height = 8, .pieces = 2};
  const std::string rows = make_png_rows(form, random);
  const std::string file = write_png(form, rows);
  std::string wrong = file;
  wrong[file.size() / 2] = static_cast<char>(wrong[file.size() / 2] ^ 1);
  const PngForm large{.width = INT32_MAX, .height = 1};
  const PngForm unfiltered{.width = 9, .height = 8, .filters = {0, 5}};
  return {wrong,
          file.substr(0, file.size() - 12),
          write_png(form, rows.substr(1)),
          write_png(form, rows + rows),
          write_png(large, rows),
          write_png(unfiltered, make_png_rows(unfiltered, random)),
          kPngSignature + png_chunk("ABCD", "") + file.substr(8)};
}

void write_all(const std::string& path) {
  std::mt19937_64 random(1);
  Folder folder(path);
  for (const auto& files : {good_files(random), bad_files(random)}) {
    for (const std::string& file : files) {
      for (const std::string& request : seed_requests()) folder.write(request + file);
    }
  }
}

}  // namespace
}  // namespace tio::fuzz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: make_png_seeds <folder>\n";
    return 2;
  }
  tio::fuzz::write_all(arguments[1]);
  return 0;
}
