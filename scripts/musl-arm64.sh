#!/usr/bin/env bash
# Fetches Debian's musl for arm64 (headers, libraries, the specs of its compiler) and prints the folder
# where it lies with a `musl-gcc` that compiles for it. Nothing is installed and apt's own state is
# left alone: all of it goes to build/musl-arm64.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build/musl-arm64
if [ ! -x "$root/musl-gcc" ]; then
  mkdir -p "$root"/{lists/partial,cache/archives/partial}
  apt=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$root"
       -o Dir::State::lists="$root/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$root/cache"
       -o Acquire::Languages=none -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  apt-get "${apt[@]}" update >&2
  (cd "$root" && apt-get "${apt[@]}" download musl musl-dev musl-tools >&2)
  for package in "$root"/*.deb; do dpkg-deb -x "$package" "$root"; done
  specs=$root/usr/lib/aarch64-linux-musl/musl-gcc.specs
  sed -i -E "s#(-isystem |-L|[ ])(/usr/(include|lib)/aarch64-linux-musl)#\1$root\2#g" "$specs"
  # Where /lib is not /usr/lib, as here, the linker would find the archive alone.
  ln -sf ../../../lib/aarch64-linux-musl/libc.so "$root/usr/lib/aarch64-linux-musl/libc.so"
  printf '#!/bin/sh\nexec aarch64-linux-gnu-gcc "$@" -specs "%s"\n' "$specs" >"$root/musl-gcc"
  chmod +x "$root/musl-gcc"
  rm -rf "$root/lists" "$root/cache" "$root"/*.deb
fi
echo "$root"
