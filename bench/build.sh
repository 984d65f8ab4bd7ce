#!/bin/sh
# Builds the benchmark programs, bench/programs/*.cpp and bench/loads/*.cpp -> build/bench/NAME, those
# that are out of date only. Builtins are off, so that the compiler drops no malloc/free pair. A
# program may ask for more with a line `// build flags: ...`; one with -lstrata needs the library
# built, and uses its own calls whatever malloc is preloaded. `// needs: ...` names packages of
# pkg-config; without them the program is left out.
#   bench/build.sh [FOLDER [NAME...]]     all programs, or those named
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../build/bench}
[ $# -eq 0 ] || shift
lib=$here/../build/lib
mkdir -p "$out"
for source in "$here"/programs/*.cpp "$here"/loads/*.cpp; do
  name=$(basename "$source" .cpp)
  target=$out/$name
  case " ${*:-$name} " in
    *" $name "*) ;;
    *) continue ;;
  esac
  if [ -e "$target" ] &&
    [ -z "$(find "$source" "$here"/programs/*.h "$here"/loads/*.h "$here"/../include "$0" \
      -newer "$target")" ]; then
    continue
  fi
  flags=$(sed -n 's|^// build flags: ||p' "$source")
  needs=$(sed -n 's|^// needs: ||p' "$source")
  if [ -n "$needs" ]; then
    # shellcheck disable=SC2086  # the names are meant to be split
    if ! found=$(pkg-config --cflags --libs $needs 2>/dev/null); then
      echo "bench: $name is left out: no development files of $needs" >&2
      continue
    fi
    flags="$flags $(echo " $found" | sed 's| -I| -isystem |g')" # their warnings are not ours
  fi
  echo "bench: building $name" >&2
  # shellcheck disable=SC2086  # the flags are meant to be split
  ${CXX:-g++} -std=c++20 -O2 -g1 -Wall -Wextra -Werror -fno-builtin-malloc -fno-builtin-free \
    -fno-builtin-calloc -fno-builtin-realloc -fno-exceptions -pthread \
    -I"$here/../include" -L"$lib" -Wl,-rpath,"$lib" -o "$target.tmp" "$source" $flags
  mv "$target.tmp" "$target"
done
