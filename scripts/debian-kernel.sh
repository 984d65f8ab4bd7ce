#!/usr/bin/env bash
# Fetches a Debian kernel (the small one for clouds) and prints where its image lies; its modules lie
# beside it. apt's own state of the machine is left alone: lists and package go to the folder, which
# gets its name once it is complete.
#   scripts/debian-kernel.sh arm64|amd64 SUITE
set -euo pipefail
cd "$(dirname "$0")/.."

architecture=$1 suite=$2
root=$PWD/build/kernel-$architecture-$suite
mkdir -p build
exec 9>"$root.lock"
flock 9
image=$(compgen -G "$root/boot/vmlinuz-*" || true)
if [ -z "$image" ]; then
  part=$root.part
  rm -rf "$part"
  mkdir -p "$part"/{lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian $suite main" >"$part/sources.list"
  apt=(-qq -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture"
       -o Dir::State="$part" -o Dir::State::lists="$part/lists" -o Dir::State::status=/dev/null
       -o Dir::Etc::SourceList="$part/sources.list" -o Dir::Etc::SourceParts=/dev/null
       -o Dir::Cache="$part/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root
       -o Debug::NoLocking=1)
  apt-get "${apt[@]}" update >&2
  package=$(apt-cache "${apt[@]}" depends "linux-image-cloud-$architecture" |
    sed -n 's/.*Depends: //p' | head -1)
  (cd "$part" && apt-get "${apt[@]}" download "$package" >&2)
  dpkg-deb -x "$part/$package"_*.deb "$part/unpacked"
  find "$part/unpacked" -name modules -prune -exec mv {} "$part/" \;
  mv "$part/unpacked/boot" "$part/"
  rm -rf "$part/unpacked" "$part/lists" "$part/cache" "$part"/*.deb
  rm -rf "$root"
  mv "$part" "$root"
  image=$(compgen -G "$root/boot/vmlinuz-*")
fi
echo "$image"
