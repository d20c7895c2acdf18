#!/usr/bin/env bash
# Tries build.sh with the variables of OSS-Fuzz and the Clang of this machine, and runs each target:
# check.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/../../.."
rm -rf "$1"
mkdir -p "$1"/{src,work,out}
folder=$(realpath "$1")
ln -s "$PWD" "$folder/src/torchrec_io"

clang=$(command -v "${FUZZ_CXX:-}" clang++-19 clang++-18 clang++-17 clang++-16 clang++ | head -1)
export CXX=$clang CC=${clang/++/} SRC=$folder/src WORK=$folder/work OUT=$folder/out
sanitizers="-fsanitize=address,undefined -fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined"
export CFLAGS="-O1 -fno-omit-frame-pointer -gline-tables-only $sanitizers"
export CXXFLAGS="$CFLAGS -stdlib=libc++" LIB_FUZZING_ENGINE=-fsanitize=fuzzer
bash -eu tests/fuzz/oss-fuzz/build.sh

for target in tests/fuzz/native/fuzz_*.cpp; do
  name=$(basename "$target" .cpp)
  [ -x "$OUT/$name" ] || continue
  mkdir "$folder/$name"
  python -m zipfile -e "$OUT/${name}_seed_corpus.zip" "$folder/$name"
  "$OUT/$name" -runs=1000 "$folder/$name" > "$folder/$name.log" 2>&1 || {
    tail -40 "$folder/$name.log"
    exit 1
  }
  echo "$name: $(find "$folder/$name" -type f | wc -l) seeds"
done
