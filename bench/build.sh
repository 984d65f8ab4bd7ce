#!/bin/sh
# Builds the benchmark programs, bench/programs/*.cpp -> build/bench/NAME, those that are out of
# date only. Builtins are off, so that the compiler drops no malloc/free pair.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../build/bench}
mkdir -p "$out"
for source in "$here"/programs/*.cpp; do
  target=$out/$(basename "$source" .cpp)
  if [ -z "$(find "$here/programs" -newer "$target" -name '*.h' 2>/dev/null)" ] &&
    [ -e "$target" ] && [ "$target" -nt "$source" ]; then
    continue
  fi
  echo "bench: building $(basename "$target")" >&2
  ${CXX:-g++} -std=c++20 -O2 -g1 -Wall -Wextra -Werror -fno-builtin-malloc -fno-builtin-free \
    -fno-builtin-calloc -fno-builtin-realloc -fno-exceptions -pthread \
    -o "$target.tmp" "$source"
  mv "$target.tmp" "$target"
done
