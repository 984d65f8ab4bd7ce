#!/usr/bin/env bash
# Builds the Apache modules with apxs (apache2-dev) into a folder:
#   servers/apache/build.sh build/servers
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:-$here/../../build/servers}" && cd "${1:-$here/../../build/servers}" && pwd)
command -v apxs >/dev/null || { echo "apxs is not there: apt-get install apache2-dev" >&2; exit 3; }

# libtool leaves its files beside the source, so the source is copied first.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in "$here"/mod_*.c "$here"/demo/mod_*.c; do
  name=$(basename "$source" .c)
  cp "$source" "$work/"
  (cd "$work" && apxs -c -Wc,-Wall -Wc,-Wextra -Wc,-Wno-unused-parameter \
    -Wc,-Wno-missing-field-initializers -Wc,-Werror -I "$here/../../include" "$name.c") \
    >"$work/log" 2>&1 || { grep -m 20 -E "error|warning" "$work/log" >&2; exit 1; }
  cp "$work/.libs/$name.so" "$out/"
done
