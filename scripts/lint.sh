#!/usr/bin/env bash
# clang-format, ruff, mypy, the include order and file rules; clang-tidy too unless --quick.
# With --fix, formats in place instead of checking.
set -uo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
status=0

step() {
  local name=$1
  shift
  "$@" || { echo "lint: $name failed" >&2; status=1; }
}

list() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [ -f "$file" ] && echo "$file"
  done
}

mapfile -t cpp < <(list '*.h' '*.cpp' '*.c')
mapfile -t py < <(list '*.py' | grep -v '_pb2.py$') # what protoc made is its own affair

if [ "$mode" = --fix ]; then
  clang-format-19 -i "${cpp[@]}"
  .venv/bin/ruff format "${py[@]}"
  .venv/bin/ruff check --fix "${py[@]}"
  exit
fi

step clang-format clang-format-19 --dry-run -Werror "${cpp[@]}"
step "ruff format" .venv/bin/ruff format -q --check "${py[@]}"
step "ruff check" .venv/bin/ruff check -q "${py[@]}"
mypy=(.venv/bin/mypy --config-file python/pyproject.toml --cache-dir build/mypy --no-error-summary)
types() {
  MYPYPATH=$1 "${mypy[@]}" "${@:2}"
}
mapfile -t tests < <(list 'tests/*.py' 'scripts/*.py')
mapfile -t package < <(list 'python/*.py' | grep -v '_pb2.py$')
mapfile -t bench < <(list 'bench/*.py')
mapfile -t packages < <(list 'packages/*.py')
step "mypy scripts and tests" types tests:python "${tests[@]}"
step "mypy python" types python:tests "${package[@]}"
[ ${#bench[@]} -eq 0 ] || step "mypy bench" types bench:python:tests "${bench[@]}"
[ ${#packages[@]} -eq 0 ] || step "mypy packages" types packages:python "${packages[@]}"

if [ "$mode" != --quick ]; then
  step includes python3 scripts/check_includes.py
  step files python3 scripts/check_files.py
  cmake --preset debug-clang >/dev/null
  mapfile -t units < <(list 'src/*/*.cpp')
  printf '%s\n' "${units[@]}" | xargs -r -P "$(nproc)" -n 1 \
    clang-tidy-19 --quiet -p build/debug-clang --warnings-as-errors='*' 2>/dev/null
  [ "${PIPESTATUS[1]}" -eq 0 ] || { echo "lint: clang-tidy failed" >&2; status=1; }
fi
exit $status
