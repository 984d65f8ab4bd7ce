#!/usr/bin/env bash
# Rewrites tests/golden and tests/profile/golden from the release builds of both compilers, then
# runs their tests: exact files are refreshed, all other rules must hold all the same.
#   scripts/update-golden.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
for preset in release release-clang; do
  echo "== goldens of $preset"
  units=OFF
  [ "$preset" = release ] || units=ON # as scripts/run_tests.py builds it
  cmake --preset "$preset" -DSTRATA_TESTS=ON -DSTRATA_UNITS=$units >/dev/null
  cmake --build --preset "$preset" -j "$jobs" --target strata_shared strata_static write_profile \
    write_kinds
  UPDATE_GOLDEN=1 ctest --preset "$preset" -R '^(golden/|trace/test_format$|profile/test_(pprof|golden)$)'
done
git status --short -- tests/golden tests/profile/golden
