#!/usr/bin/env bash
# Installs what the named groups miss: Debian packages through apt-get, Python packages into .venv
# from python/requirements.txt. A group that is complete costs a few milliseconds; what has to be
# done is said in one line each. Servers that tests and the demo use are installed, not started.
#   scripts/install-deps.sh [--packages] GROUP...     --packages: no .venv
#                                        groups: build tools test arm kernel servers demo bench fuzz packages compiler analyzer suites lint
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD="cmake ninja-build g++ binutils make"
CLANG="clang-19 libclang-rt-19-dev llvm-19 libclang-19-dev llvm-19-dev"
PYTHON="python3 python3-venv"
BROWSER="chromium fonts-dejavu-core"
SERVERS="redis-server memcached nginx-light sqlite3 postgresql-15 libpython3.11-testsuite strace"
DAEMONS="openssh-server openssh-client chrony vsftpd cron sudo man-db bubblewrap"
PHP="php-cli php-xml php-mbstring php-curl php-sqlite3"
POOLS="apache2 apache2-dev libapr1-dev nginx-light nginx-dev"
IMAGES="libvips-dev libjpeg-dev pkg-config"
ARM="g++-aarch64-linux-gnu qemu-user googletest"
MUSL="musl-tools linux-libc-dev"
CLIENTS="apache2-utils curl openssl subversion libaprutil1-dev"

packages_of() {
  case "$1" in
    build) echo "$BUILD" ;;
    tools) echo "$PYTHON qemu-user" ;;
    test) echo "$BUILD $CLANG lld-19 $PYTHON libgtest-dev pkg-config $SERVERS $DAEMONS $PHP $POOLS $CLIENTS $BROWSER $ARM $MUSL rustc golang-go" ;;
    arm) echo "$BUILD $ARM $PYTHON qemu-system-arm dpkg-dev" ;;
    kernel) echo "$BUILD $PYTHON libgtest-dev qemu-system-x86" ;;
    servers) echo "$BUILD $POOLS" ;;
    demo) echo "$PYTHON redis-server libjemalloc2" ;;
    learn) echo "$BUILD $PYTHON" ;;
    bench) echo "$BUILD $PYTHON redis-server libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 cargo $POOLS wrk $IMAGES qemu-user memcached sqlite3" ;;
    fuzz) echo "$BUILD $CLANG" ;;
    analyzer) echo "$BUILD $PYTHON clang-19 llvm-19-dev" ;;
    compiler) echo "$BUILD $CLANG" ;;
    packages) echo "$BUILD $PYTHON $MUSL llvm-19-dev g++-aarch64-linux-gnu qemu-user cargo dpkg-dev mmdebstrap" ;;
    suites) echo "$BUILD $SERVERS dpkg-dev tcl-dev zlib1g-dev" ;;
    lint) echo "$BUILD $CLANG $PYTHON libgtest-dev clang-format-19 clang-tidy-19 git" ;;
    *) echo "install-deps: no group '$1' (build tools test arm kernel servers demo learn bench fuzz packages compiler analyzer suites lint)" >&2; return 2 ;;
  esac
}

# A command that is there serves as well as the package, whoever installed it.
have() {
  case "$1" in
    cmake | make | git | rustc | cargo | pkg-config) command -v "$1" >/dev/null && return ;;
    g++ | sqlite3 | memcached | chromium) command -v "$1" >/dev/null && return ;;
    ninja-build) command -v ninja >/dev/null && return ;;
    python3 | python3-venv)
      python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
        2>/dev/null && return ;;
    qemu-user) command -v qemu-x86_64 >/dev/null && return ;;
    golang-go) command -v go >/dev/null && return ;; # for `go tool pprof`
    nginx-light) command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] && return ;;
  esac
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  local missing=() package
  for package in $(printf '%s\n' "$@" | sort -u); do
    have "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "== installing Debian packages: ${missing[*]}"
  local log=build/apt.log policy=/usr/sbin/policy-rc.d made_policy="" made_conf="" status=0
  local pgconf=/etc/postgresql-common/createcluster.conf
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
    made_policy=1
  fi
  if [[ " ${missing[*]} " == *" postgresql-15 "* ]] && [ ! -e "$pgconf" ]; then
    as_root mkdir -p "$(dirname "$pgconf")"
    echo "create_main_cluster = false" | as_root tee "$pgconf" >/dev/null
    made_conf=1
  fi
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300
             -o Dpkg::Options::=--force-confold)
  as_root "${apt[@]}" update >"$log" 2>&1 || true # an unreachable extra source need not matter
  as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 || status=$?
  [ -n "$made_policy" ] && as_root rm -f "$policy"
  if [ "$status" -ne 0 ]; then
    [ -n "$made_conf" ] && as_root rm -f "$pgconf"
    tail -n 25 "$log" >&2
    echo "install-deps: apt-get failed; the whole log is in $log" >&2
    return "$status"
  fi
}

install_python() {
  local stamp=.venv/.strata-stamp want
  want=$(cat python/requirements.txt python/pyproject.toml | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && [ -x .venv/bin/python ] && return
  echo "== making .venv with the packages that python/requirements.txt pins"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  # What is imported is compiled then; all of it would take half a minute.
  local pip=(.venv/bin/python -m pip install -q --disable-pip-version-check --no-compile)
  "${pip[@]}" -r python/requirements.txt
  "${pip[@]}" --no-deps --no-build-isolation -e python
  echo "$want" >"$stamp"
}

packages_only=""
[ "${1:-}" != --packages ] || { packages_only=1; shift; }
[ $# -gt 0 ] || { packages_of "" ; exit 2; }
mkdir -p build
all=()
python=""
for group in "$@"; do
  names=$(packages_of "$group")
  # shellcheck disable=SC2206 # a list of words
  all+=($names)
  [[ " $names " == *" python3 "* ]] && python=1
done

stamp=build/.deps-$(printf '%s-' "$@")stamp
want=$(sha256sum <"$0")
if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
  install_packages "${all[@]}"
  echo "$want" >"$stamp"
fi
[ -z "$python" ] || [ -n "$packages_only" ] || install_python
