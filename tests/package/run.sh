#!/usr/bin/env bash
# Builds the sdist, from it the wheel, installs that away from the checkout, and uses it there.
set -euo pipefail
build=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

rm -rf "$build"/dist "$build"/site
python - "$root" "$build/dist" <<'PY'
import os
import sys

from scikit_build_core.build import build_sdist

os.chdir(sys.argv[1])
os.makedirs(sys.argv[2])
build_sdist(sys.argv[2])
PY
pip wheel -q --no-build-isolation --no-deps --config-settings build-dir="$build/cmake" -w "$build/dist" \
  "$build"/dist/*.tar.gz
pip install -q --no-deps --target "$build/site" "$build"/dist/*.whl

# An empty folder, and no editable install in the way: what is imported is the wheel.
cd "$(mktemp -d)"
PYTHONPATH="$build/site" SKBUILD_EDITABLE_SKIP=1 python "$here/check_wheel.py" "$build/site" \
  "$root/examples/data/digits"

# The messages with every release line of protobuf that may be installed, native and in Python. -S
# leaves out what else is installed, so that they are seen to need nothing of it.
for version in 4.25.0 5.29.6 6.33.6 "$(sed -n 's/^protobuf==//p' "$root/constraints.txt")"; do
  protobuf="$build/protobuf-$version"
  [ -d "$protobuf" ] || pip install -q --no-deps --target "$protobuf" "protobuf==$version"
  for implementation in upb python; do
    PYTHONPATH="$build/site:$protobuf" PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=$implementation \
      python -S -W error "$here/check_messages.py" "$version" "$implementation"
  done
done
