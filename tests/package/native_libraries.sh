#!/usr/bin/env bash
# Builds the libjpeg-turbo and libdeflate that wheels contain, as shared libraries: native_libraries.sh PREFIX
#
# Those of the systems that wheels are built on are years old, or need a newer system than the wheel.
# TARBALLS is a folder of releases that were downloaded before.
set -euo pipefail
prefix=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tarballs=${TARBALLS:-$work}

# Unpacks a release to a folder in $work, and checks it if it is downloaded: unpack NAME URL SHA256
unpack() {
  local tarball=$tarballs/$1.tar.gz
  if [ -z "${TARBALLS:-}" ]; then
    curl -fsSL --retry 3 -o "$tarball" "$2"
    python3 - "$tarball" "$3" <<'CHECK'
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    found = hashlib.sha256(file.read()).hexdigest()
sys.exit(None if found == sys.argv[2] else f"{sys.argv[1]} has the SHA-256 {found}")
CHECK
  fi
  mkdir "$work/$1"
  tar -xzf "$tarball" -C "$work/$1" --strip-components 1
}

# Builds and installs a release: install NAME OPTION...
install() {
  local name=$1
  shift
  cmake -S "$work/$name" -B "$work/$name/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DCMAKE_INSTALL_LIBDIR="$prefix/lib" -DCMAKE_INSTALL_NAME_DIR="$prefix/lib" "$@" > /dev/null
  cmake --build "$work/$name/build" -j "$(getconf _NPROCESSORS_ONLN)" > /dev/null
  cmake --install "$work/$name/build" > /dev/null
}

# The assembler is for libjpeg-turbo on x86-64 only. Without it that would be several times slower.
if [ "$(uname -m)" = x86_64 ] && ! command -v nasm > /dev/null; then
  if command -v dnf > /dev/null; then dnf install -q -y nasm; else apt-get install -q -y nasm; fi
fi
unpack libjpeg-turbo \
  https://github.com/libjpeg-turbo/libjpeg-turbo/releases/download/3.1.3/libjpeg-turbo-3.1.3.tar.gz \
  075920b826834ac4ddf97661cc73491047855859affd671d52079c6867c1c6c0
install libjpeg-turbo -DENABLE_STATIC=OFF -DWITH_TURBOJPEG=OFF -DREQUIRE_SIMD=ON \
  -DCMAKE_POLICY_VERSION_MINIMUM=3.5
unpack libdeflate \
  https://github.com/ebiggers/libdeflate/archive/refs/tags/v1.25.tar.gz \
  d11473c1ad4c57d874695e8026865e38b47116bbcb872bfc622ec8f37a86017d
install libdeflate -DLIBDEFLATE_BUILD_STATIC_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF \
  -DLIBDEFLATE_COMPRESSION_SUPPORT=OFF
echo "libjpeg-turbo and libdeflate are in $prefix"
