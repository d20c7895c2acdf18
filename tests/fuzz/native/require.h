// The assertion of fuzz targets: prints the difference and ends the process.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tio::fuzz {

inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

}  // namespace tio::fuzz
