#!/bin/sh
# Builds the benchmark programs, bench/programs/*.cpp -> build/bench/NAME, those that are out of
# date only. Builtins are off, so that the compiler drops no malloc/free pair. A program may ask for
# more with a line `// build flags: ...`; one with -lstrata needs the library built, and uses its
# own calls whatever malloc is preloaded.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../build/bench}
lib=$here/../build/lib
mkdir -p "$out"
for source in "$here"/programs/*.cpp; do
  target=$out/$(basename "$source" .cpp)
  if [ -e "$target" ] &&
    [ -z "$(find "$source" "$here"/programs/*.h "$here"/../include "$0" -newer "$target")" ]; then
    continue
  fi
  echo "bench: building $(basename "$target")" >&2
  # shellcheck disable=SC2046  # the flags are meant to be split
  ${CXX:-g++} -std=c++20 -O2 -g1 -Wall -Wextra -Werror -fno-builtin-malloc -fno-builtin-free \
    -fno-builtin-calloc -fno-builtin-realloc -fno-exceptions -pthread \
    -I"$here/../include" -L"$lib" -Wl,-rpath,"$lib" -o "$target.tmp" "$source" \
    $(sed -n 's|^// build flags: ||p' "$source")
  mv "$target.tmp" "$target"
done
