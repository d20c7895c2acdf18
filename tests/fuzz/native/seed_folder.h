// A folder of seeds, which are numbered.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace tio::fuzz {

class Folder {
 public:
  explicit Folder(const std::filesystem::path& path) : path_(path) {
    std::filesystem::create_directories(path);
  }

  void write(const std::string& seed) {
    std::ofstream out(path_ / std::to_string(count_++), std::ios::binary);
    out << seed;
  }

 private:
  std::filesystem::path path_;
  int count_ = 0;
};

}  // namespace tio::fuzz
