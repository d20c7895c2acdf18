#!/usr/bin/env bash
# Build the fuzz targets and run each of them for some seconds: run.sh BUILD_DIR SECONDS
#
# Needs Clang with libFuzzer, protoc and protobuf's C++ library. Installs missing tools with apt-get if
# possible. Otherwise the run is skipped, or fails in CI.
set -euo pipefail
build=$1
seconds=$2
cd "$(dirname "$0")/../../.."

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

if ! tools_present && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  apt-get -qq update
  apt-get -qq install -y clang-19 libclang-rt-19-dev libprotobuf-dev protobuf-compiler > /dev/null
fi
if ! tools_present; then
  echo "fuzzing needs Clang with libFuzzer, protoc and protobuf's C++ library" >&2
  [ "${CI:-}" = true ] && exit 1
  echo "fuzzing skipped" >&2
  exit 0
fi

cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$(find_clang)" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DTORCHREC_IO_FUZZ=ON > /dev/null
cmake --build "$build" -j "$(nproc)"

# Inputs found in earlier runs are kept and used again, together with the seeds.
while read -r target; do
  mkdir -p "$build/corpus/$target"
  echo "fuzzing $target for $seconds s"
  if ! "$build/tests/native/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$build/" \
    "$build/corpus/$target" "$build/seeds/$target" > "$build/$target.log" 2>&1 < /dev/null; then
    tail -60 "$build/$target.log"
    exit 1
  fi
  grep number_of_executed_units "$build/$target.log"
done < "$build/fuzz_targets"
