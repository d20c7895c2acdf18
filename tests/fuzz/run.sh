#!/usr/bin/env bash
# Runs the fuzz targets, each for a time: run.sh BUILD_DIR SECONDS [TARGET...]
#
# Inputs that were kept, and those of earlier runs in BUILD_DIR/corpus, come first. New inputs that fail are
# written to BUILD_DIR/findings. BUILD_DIR/logs has a log of each run, which report.py reads. With FUZZ_SEED, a
# run can be repeated.
#
# tests/native/build.sh builds the targets in C++, and says what they need. Those in Python need atheris. Targets that
# need a missing tool are skipped, which is a failure in CI.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "$1"
build=$(realpath "$1")
seconds=$2
shift 2
jobs=${JOBS:-$(nproc)}
seed=${FUZZ_SEED:-0}  # 0 is another one in each run

# Says that targets are skipped; fails in CI, where all tools must be installed.
skip() {
  echo "fuzzing of $1 needs $2" >&2
  [ "${CI:-}" = true ] && exit 1
  echo "skipped" >&2
}

names() {
  basename -a "$1"/fuzz_* | sed 's/^fuzz_//; s/\..*//' | sort -u
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
JOBS=$jobs tests/native/build.sh "$build"
for name in $(names tests/fuzz/native); do
  if [ -x "$build/tests/fuzz/native/fuzz_$name" ]; then targets+=("$name"); else skip "$name" "its build (tests/native/build.sh)"; fi
done
if python -c "import atheris" 2> /dev/null; then
  mapfile -t -O "${#targets[@]}" targets < <(names tests/fuzz/python)
else
  skip "targets in Python" atheris
fi
[ $# = 0 ] || targets=("$@")

mkdir -p "$build/logs" "$build/findings"
python -m tests.fuzz.corpus unpack "$build/seeds"
export -f fuzz
export build seconds seed
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -euo pipefail -c 'fuzz {}'
