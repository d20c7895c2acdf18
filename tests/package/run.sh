#!/usr/bin/env bash
# Build the sdist, build the wheel from it, install it outside the checkout, and test it there.
set -euo pipefail
build=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

rm -rf "$build"/dist "$build"/site
python "$here/sdist.py" "$build/dist"
pip wheel -q --no-build-isolation --no-deps --config-settings build-dir="$build/cmake" -w "$build/dist" \
  "$build"/dist/*.tar.gz
pip install -q --no-deps --target "$build/site" "$build"/dist/*.whl

# Run in an empty folder without the editable install, so that the wheel is imported.
cd "$(mktemp -d)"
PYTHONPATH="$build/site" SKBUILD_EDITABLE_SKIP=1 python "$here/check_wheel.py" "$root/examples/data/digits" \
  "$build/site"

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
