// Writes the seeds of the target of decompression: make_inflate_seeds <folder>.
#include <iostream>
#include <random>
#include <string>

#include "deflated.h"
#include "seed_folder.h"

namespace tio::fuzz {
namespace {

void write_all(const std::string& path) {
  std::mt19937_64 random(1);
  Folder folder(path);
  for (const auto format : {test::Format::deflate, test::Format::gzip, test::Format::zlib}) {
    for (const int level : {0, 1, 6, 12}) {
      for (const std::size_t size : {0, 9, 700, 5'000}) {
        const std::string stream =
            test::deflated(test::repeating_bytes(size, random), format, level);
        for (const int more : {0, 16, 0xa0}) {
          std::string options(1, static_cast<char>(more + static_cast<int>(format)));
          options.push_back(static_cast<char>(random() % 30));
          options.push_back(static_cast<char>(random() % 256));
          folder.write(options + stream + (more == 16 ? "following" : ""));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tio::fuzz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: make_inflate_seeds <folder>\n";
    return 2;
  }
  tio::fuzz::write_all(arguments[1]);
  return 0;
}
