#!/usr/bin/env bash
# Build the native tests under ASan and UBSan, and the fuzz targets, which share the core:
#
#   build.sh BUILD_DIR [TARGET]
#
# The target native_tests leaves out the fuzz targets.
#
# The fuzz targets need Clang with libFuzzer, protoc and protobuf's C++ library, and the headers of libjpeg-turbo and
# libdeflate for one target each. What is missing is installed with apt-get by root. Otherwise targets are left out,
# which is a failure in CI, and without Clang or protobuf the default compiler builds the tests alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
target=${2:-all}

find_clang() {
  for name in "${FUZZ_CXX:-}" clang++-19 clang++-18 clang++-17 clang++-16 clang++; do
    [ -n "$name" ] && command -v "$name" && return
  done
  return 1
}

tools_present() {
  local compiler probe
  compiler=$(find_clang) && command -v protoc > /dev/null || return 1
  probe=$(mktemp -d)
  cat > "$probe/probe.cpp" <<'CPP'
#include <google/protobuf/message.h>
extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }
CPP
  "$compiler" -std=c++20 -fsanitize=fuzzer,address,undefined "$probe/probe.cpp" -o "$probe/probe" \
    2> /dev/null
}

has_header() {
  printf '#include <cstdio>\n#include <%s>\n' "$1" | "$(find_clang)" -x c++ -fsyntax-only - 2> /dev/null
}

if ! { tools_present && has_header jpeglib.h && has_header libdeflate.h; } && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  apt-get -qq update
  apt-get -qq install -y clang-19 libclang-rt-19-dev libdeflate-dev libjpeg-dev libprotobuf-dev \
    protobuf-compiler > /dev/null
fi
options=(-DTORCHREC_IO_SANITIZER=address -DPython_EXECUTABLE="$(command -v python)")
if tools_present; then
  options+=(-DTORCHREC_IO_FUZZ=ON -DCMAKE_CXX_COMPILER="$(find_clang)")
else
  echo "fuzz targets in C++ need Clang with libFuzzer, protoc and protobuf's C++ library" >&2
  [ "${CI:-}" != true ]
fi
cmake -S . -B "$build" -G Ninja "${options[@]}" > /dev/null
cmake --build "$build" --target "$target" -j "${JOBS:-$(nproc)}"
