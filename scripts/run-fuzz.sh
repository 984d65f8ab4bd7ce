#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz and runs each for SECONDS on its committed corpus.
# New inputs stay in build/fuzz/corpus; a crashing one is left in build/fuzz/crashes.
#   scripts/run-fuzz.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?seconds for each target}
echo "== building the fuzz targets (clang, AddressSanitizer)"
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)"
mkdir -p build/fuzz/crashes
failed=0 ran=0
for source in tests/fuzz/*_fuzz.cpp; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .cpp)
  mkdir -p "build/fuzz/corpus/$name"
  corpus=("build/fuzz/corpus/$name")
  [ -d "tests/fuzz/corpus/$name" ] && corpus+=("tests/fuzz/corpus/$name")
  echo "== $name for $seconds s"
  ran=$((ran + 1))
  flags=()
  [ "$name" = options_fuzz ] && flags+=(-close_fd_mask=2) # each input has its warnings
  "build/fuzz/fuzz/$name" -max_total_time="$seconds" -print_final_stats=1 "${flags[@]}" \
    -artifact_prefix="build/fuzz/crashes/$name-" "${corpus[@]}" 2>"build/fuzz/$name.log" ||
    { failed=$((failed + 1)); tail -n 40 "build/fuzz/$name.log"; }
  grep -E 'stat::(number_of_executed_units|new_units_added)' "build/fuzz/$name.log" || true
done
echo "$((ran - failed)) passed, $failed failed"
[ "$ran" -gt 0 ] && [ "$failed" -eq 0 ]
