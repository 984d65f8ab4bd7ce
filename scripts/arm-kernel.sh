#!/usr/bin/env bash
# Fetches Debian's arm64 kernel (the small one for clouds) and prints where its image lies. apt's own
# state of the machine is left alone: the lists and the package go to build/arm-kernel.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build/arm-kernel
image=$(compgen -G "$root/boot/vmlinuz-*" || true)
if [ -z "$image" ]; then
  mkdir -p "$root"/{lists/partial,cache/archives/partial}
  apt=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$root"
       -o Dir::State::lists="$root/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$root/cache"
       -o Acquire::Languages=none -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  apt-get "${apt[@]}" update >&2
  package=$(apt-cache "${apt[@]}" depends linux-image-cloud-arm64 | sed -n 's/.*Depends: //p' | head -1)
  (cd "$root" && apt-get "${apt[@]}" download "$package" >&2)
  dpkg-deb -x "$root"/"$package"_*.deb "$root/unpacked"
  mkdir -p "$root/boot"
  mv "$root"/unpacked/boot/vmlinuz-* "$root/unpacked"/boot/config-* "$root/boot/"
  rm -rf "$root/unpacked" "$root/lists" "$root/cache" "$root"/*.deb
  image=$(compgen -G "$root/boot/vmlinuz-*")
fi
echo "$image"
