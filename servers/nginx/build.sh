#!/usr/bin/env bash
# Builds the nginx modules for Debian's nginx, with the headers and the configure of nginx-dev, into
# a folder, and with them those of further folders:
#   servers/nginx/build.sh build/servers [FOLDER...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:-$here/../../build/servers}" && cd "${1:-$here/../../build/servers}" && pwd)
further=()
for folder in "${@:2}"; do further+=("--add-dynamic-module=$(cd "$folder" && pwd)"); done
sources=/usr/share/nginx/src
[ -e "$sources/conf_flags" ] || { echo "nginx-dev is not there: apt-get install nginx-dev" >&2; exit 3; }

# shellcheck disable=SC1091 # Debian's: the flags that its nginx was configured with
source "$sources/conf_flags"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -rs "$sources/." "$work/" # configure writes into its folder
cd "$work"
{
  ./configure "${NGX_CONF_FLAGS[@]}" --with-cc-opt="-g -O2 -fPIC -Wextra -Wno-unused-parameter \
    -Wno-cast-function-type -Wno-missing-field-initializers -D_FORTIFY_SOURCE=2 -D_GNU_SOURCE" \
    --with-ld-opt='-Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete' \
    --add-dynamic-module="$here" --add-dynamic-module="$here/demo" "${further[@]}"
  make -j2 -f objs/Makefile modules
} >"$work/log" 2>&1 || { grep -m 20 -E 'error|warning' "$work/log" >&2; tail -n 5 "$work/log" >&2; exit 1; }
cp objs/*_module.so "$out/"
