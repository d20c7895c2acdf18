#!/bin/bash -eu
# Builds the targets in C++ for OSS-Fuzz and ClusterFuzzLite, which set CC, CXX, CXXFLAGS,
# LIB_FUZZING_ENGINE, SRC, WORK and OUT. check.sh tries it without them.
#
# The targets in Python are not built: each would need a PyTorch of its own. `make fuzz` runs them.

# Debian's protobuf uses libstdc++, and the machines that run the targets have neither.
export CXXFLAGS="${CXXFLAGS//-stdlib=libc++/}"
export LDFLAGS="${LDFLAGS:-} -static-libstdc++ -static-libgcc"

source=$SRC/torchrec_io
build=$WORK/torchrec_io

# Instrumented and static. Without their sources, as for check.sh, those of the system are used.
if [ -d "$SRC/libjpeg-turbo" ]; then
  cmake -S "$SRC/libjpeg-turbo" -B "$WORK/libjpeg-turbo" -G Ninja -DCMAKE_INSTALL_PREFIX="$WORK/jpeg" \
    -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DWITH_SIMD=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5
  cmake --build "$WORK/libjpeg-turbo" -j "$(nproc)" --target install
fi
if [ -d "$SRC/libdeflate" ]; then
  cmake -S "$SRC/libdeflate" -B "$WORK/libdeflate" -G Ninja -DCMAKE_INSTALL_PREFIX="$WORK/deflate" \
    -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF
  cmake --build "$WORK/libdeflate" -j "$(nproc)" --target install
fi
export CMAKE_PREFIX_PATH=$WORK/jpeg:$WORK/deflate

cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTORCHREC_IO_FUZZ=ON \
  -DTORCHREC_IO_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DProtobuf_USE_STATIC_LIBS=ON
ASAN_OPTIONS=detect_leaks=0 cmake --build "$build" -j "$(nproc)"

for path in "$source"/tests/fuzz/native/fuzz_*.cpp; do
  name=$(basename "$path" .cpp)
  kept=$source/tests/fuzz/corpus/${name#fuzz_}
  if [ ! -x "$build/tests/fuzz/native/$name" ]; then
    echo "$name is not built: its library is missing"
    continue
  fi
  cp "$build/tests/fuzz/native/$name" "$OUT/"
  mkdir -p "$build/corpus/$name"
  find "$build/seeds/${name#fuzz_}" "$kept/findings" -type f -exec cp {} "$build/corpus/$name/" \; \
    2> /dev/null || true # a target may have no findings
  [ ! -e "$kept/seeds.zip" ] || (cd "$build/corpus/$name" && python3 -m zipfile -e "$kept/seeds.zip" .)
  (cd "$build/corpus/$name" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
done
