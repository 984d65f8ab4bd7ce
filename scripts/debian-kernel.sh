#!/usr/bin/env bash
# Fetches a Debian kernel (the small one for clouds) and prints where its image lies; its modules lie
# beside it. apt's own state of the machine is left alone: lists and package go to the folder.
#   scripts/debian-kernel.sh arm64|amd64 SUITE
set -euo pipefail
cd "$(dirname "$0")/.."

architecture=$1 suite=$2
root=$PWD/build/kernel-$architecture-$suite
image=$(compgen -G "$root/boot/vmlinuz-*" || true)
if [ -z "$image" ]; then
  mkdir -p "$root"/{lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian $suite main" >"$root/sources.list"
  apt=(-qq -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture"
       -o Dir::State="$root" -o Dir::State::lists="$root/lists" -o Dir::State::status=/dev/null
       -o Dir::Etc::SourceList="$root/sources.list" -o Dir::Etc::SourceParts=/dev/null
       -o Dir::Cache="$root/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root
       -o Debug::NoLocking=1)
  apt-get "${apt[@]}" update >&2
  package=$(apt-cache "${apt[@]}" depends "linux-image-cloud-$architecture" |
    sed -n 's/.*Depends: //p' | head -1)
  (cd "$root" && apt-get "${apt[@]}" download "$package" >&2)
  dpkg-deb -x "$root"/"$package"_*.deb "$root/unpacked"
  find "$root/unpacked" -name modules -prune -exec mv {} "$root/" \;
  mv "$root/unpacked/boot" "$root/"
  rm -rf "$root/unpacked" "$root/lists" "$root/cache" "$root"/*.deb
  image=$(compgen -G "$root/boot/vmlinuz-*")
fi
echo "$image"
