#!/usr/bin/env bash
# Rewrites tests/golden from the release builds of both compilers, then runs its tests: exact files
# are refreshed, the rules that do not depend on them must hold all the same.
#   scripts/update-golden.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
for preset in release release-clang; do
  echo "== goldens of $preset"
  cmake --preset "$preset" -DSTRATA_TESTS=ON >/dev/null
  cmake --build --preset "$preset" -j "$jobs" --target strata_shared strata_static
  UPDATE_GOLDEN=1 ctest --preset "$preset" -L '^golden$'
done
git status --short -- tests/golden
