#!/usr/bin/env bash
# Build the sdist, build the wheel from it, without optimization, install it outside the checkout, and test it there:
#
#   run.sh BUILD_DIR [--without-libraries]
#
# The option builds another wheel as on a machine that lacks libjpeg-turbo and libdeflate.
set -euo pipefail
build=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

rm -rf "$build"/dist "$build"/site "$build"/site-*
python "$here/sdist.py" "$build/dist"

# Builds a wheel from the sdist, with or without libjpeg-turbo and libdeflate: build_wheel ON|OFF SITE
build_wheel() {
  pip wheel -q --no-build-isolation --no-deps --config-settings build-dir="$build/cmake" \
    --config-settings cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0 \
    --config-settings cmake.define.TORCHREC_IO_JPEG="$1" \
    --config-settings cmake.define.TORCHREC_IO_PNG="$1" -w "$build/dist/$1" "$build"/dist/*.tar.gz
  pip install -q --no-deps --target "$2" "$build/dist/$1"/*.whl
}

# Tests an installed wheel: check_site DECODER SITE
check_site() {
  # Run in an empty folder without the editable install, so that the wheel is imported.
  (cd "$(mktemp -d)" && PYTHONPATH="$2" SKBUILD_EDITABLE_SKIP=1 \
    python "$here/check_wheel.py" "$root/examples/data/digits" "$2" "$1")
}

if [ "${2:-}" = --without-libraries ]; then
  build_wheel OFF "$build/site-without-libraries"
  check_site pillow "$build/site-without-libraries"
fi
build_wheel ON "$build/site"
# Without the libraries a wheel has the same files, except the modules that use them.
cp -r "$build/site" "$build/site-with-pillow"
rm -f "$build"/site-with-pillow/torchrec_io/_{jpeg,png}.*.so
check_site pillow "$build/site-with-pillow"
if python -c "import torchrec_io._jpeg, torchrec_io._png" 2> /dev/null || [ "${CI:-}" = true ]; then
  check_site native "$build/site"
else
  echo "native decoding needs the headers of libjpeg-turbo and libdeflate: it is not tested" >&2
fi
cd "$(mktemp -d)"

# Test the messages with every supported release line of protobuf, native and pure Python. -S hides
# other installed packages, which proves that the messages need only lazy-loader.
lazy="$build/lazy-loader"
[ -d "$lazy" ] || pip install -q --no-deps --target "$lazy" -c "$root/constraints.txt" lazy-loader
for version in 4.25.0 5.29.6 6.33.6 "$(sed -n 's/^protobuf==//p' "$root/constraints.txt")"; do
  protobuf="$build/protobuf-$version"
  [ -d "$protobuf" ] || pip install -q --no-deps --target "$protobuf" "protobuf==$version"
  for implementation in upb python; do
    PYTHONPATH="$build/site:$lazy:$protobuf" PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=$implementation \
      python -S -W error "$here/check_messages.py" "$version" "$implementation"
  done
done
