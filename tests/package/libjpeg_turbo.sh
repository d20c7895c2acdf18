#!/usr/bin/env bash
# Builds the libjpeg-turbo that wheels contain, as a shared library: libjpeg_turbo.sh PREFIX
#
# That of the systems that wheels are built on is years old, or needs a newer system than the wheel.
# TARBALL is a release that was downloaded before.
set -euo pipefail
prefix=$1
version=3.1.3
sha256=075920b826834ac4ddf97661cc73491047855859affd671d52079c6867c1c6c0
url=https://github.com/libjpeg-turbo/libjpeg-turbo/releases/download/$version/libjpeg-turbo-$version.tar.gz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${TARBALL:-}" ]; then
  TARBALL=$work/source.tar.gz
  curl -fsSL --retry 3 -o "$TARBALL" "$url"
  python3 - "$TARBALL" $sha256 <<'CHECK'
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    found = hashlib.sha256(file.read()).hexdigest()
sys.exit(None if found == sys.argv[2] else f"the tarball has the SHA-256 {found}")
CHECK
fi
mkdir "$work/source"
tar -xzf "$TARBALL" -C "$work/source" --strip-components 1

# The assembler is for x86-64 only. Without it the decoder would be several times slower.
if [ "$(uname -m)" = x86_64 ] && ! command -v nasm > /dev/null; then
  if command -v dnf > /dev/null; then dnf install -q -y nasm; else apt-get install -q -y nasm; fi
fi
cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
  -DCMAKE_INSTALL_LIBDIR="$prefix/lib" -DCMAKE_INSTALL_NAME_DIR="$prefix/lib" -DENABLE_STATIC=OFF \
  -DWITH_TURBOJPEG=OFF -DREQUIRE_SIMD=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 > /dev/null
cmake --build "$work/build" -j "$(getconf _NPROCESSORS_ONLN)" > /dev/null
cmake --install "$work/build" > /dev/null
echo "libjpeg-turbo $version is in $prefix"
