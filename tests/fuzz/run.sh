#!/usr/bin/env bash
# Runs the fuzz targets, each for a time: run.sh BUILD_DIR SECONDS [TARGET...]
#
# Inputs that were kept, and those of earlier runs in BUILD_DIR/corpus, come first. New inputs that fail are
# written to BUILD_DIR/findings. BUILD_DIR/logs has a log of each run, which report.py reads. With FUZZ_SEED, a
# run can be repeated.
#
# Needs Clang with libFuzzer, protoc and protobuf's C++ library, the headers of libjpeg-turbo and libdeflate
# for one target each, and atheris for the targets in Python. If Clang, protobuf or the headers are missing, they are
# installed with apt-get by root. Otherwise the targets that need a missing tool are skipped, which is a failure in CI.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "$1"
build=$(realpath "$1")
seconds=$2
shift 2
jobs=${JOBS:-$(nproc)}
seed=${FUZZ_SEED:-0}  # 0 is another one in each run

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

# Says that targets are skipped; fails in CI, where all tools must be installed.
skip() {
  echo "fuzzing of the targets in $1 needs $2" >&2
  [ "${CI:-}" = true ] && exit 1
  echo "skipped" >&2
}

names() {
  basename -a "$1"/fuzz_* | sed 's/^fuzz_//; s/\..*//' | sort -u
}

build_native() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$(find_clang)" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTORCHREC_IO_FUZZ=ON > /dev/null
  cmake --build "$build" -j "$(nproc)"
}

# Runs one target. Its log is the only output, unless it fails.
fuzz() {
  local target=$1 log finding
  local -a options=() command=("$build/tests/fuzz/native/fuzz_$target")
  [ -x "${command[0]}" ] || command=(python -m tests.fuzz.python.run "$target")
  [ -s "$build/seeds/$target.dict" ] && options=(-dict="$build/seeds/$target.dict")
  log="$build/logs/$target-$(date +%s).log"
  mkdir -p "$build/corpus/$target"
  if ! "${command[@]}" -seed="$seed" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 \
    -print_final_stats=1 -artifact_prefix="$build/findings/$target-" \
    "${options[@]}" "$build/corpus/$target" "$build/seeds/$target" \
    > "$log" 2>&1 < /dev/null; then
    tail -60 "$log"
    for finding in "$build/findings/$target"-*; do
      [ -e "$finding" ] || continue
      cat <<TEXT
fuzz target $target failed. Run the input again with
  ${command[*]} $finding
After the fault is mended, keep the input, named by the fault:
  cp $finding tests/fuzz/corpus/$target/findings/NAME
TEXT
    done
    return 1
  fi
  echo "$target: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs in $seconds s"
}

targets=()
if ! { tools_present && has_header jpeglib.h && has_header libdeflate.h; } && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  apt-get -qq update
  apt-get -qq install -y clang-19 libclang-rt-19-dev libdeflate-dev libjpeg-dev libprotobuf-dev \
    protobuf-compiler > /dev/null
fi
if tools_present; then
  build_native
  has_header jpeglib.h || skip jpeg "the headers of libjpeg-turbo"
  has_header libdeflate.h || skip png_decoder "the headers of libdeflate"
  for name in $(names tests/fuzz/native); do
    if [ -x "$build/tests/fuzz/native/fuzz_$name" ]; then targets+=("$name"); else skip "fuzz_$name" "its build"; fi
  done
else
  skip C++ "Clang with libFuzzer, protoc and protobuf's C++ library"
fi
if python -c "import atheris" 2> /dev/null; then
  mapfile -t -O "${#targets[@]}" targets < <(names tests/fuzz/python)
else
  skip Python atheris
fi
[ $# = 0 ] || targets=("$@")

mkdir -p "$build/logs" "$build/findings"
python -m tests.fuzz.corpus unpack "$build/seeds"
export -f fuzz
export build seconds seed
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -euo pipefail -c 'fuzz {}'
