#!/bin/sh
# Builds the stack walk as a library of its own, for bench/programs/stackwalk.cpp, and one that says
# what the tables of a program cost, to be preloaded into it:
#   scripts/build-stack-probe.sh [FOLDER]      libstackprobe.so and libstackprepare.so, to build/bench
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/bench}
mkdir -p "$out"
sources=$(echo src/profile/unwind/*.cpp src/profile/unwind/x86_64/*.cpp \
  src/profile/unwind/glibc/*.cpp src/profile/stack_walk.cpp src/profile/mappings.cpp \
  src/profile/script_frames.cpp src/profile/python/*.cpp src/os/confinement.cpp \
  src/os/readable.cpp src/os/side_stack.cpp src/os/x86_64/switch_stack.cpp src/base/lock.cpp \
  src/base/check.cpp src/base/message.cpp src/base/moment.cpp)
build() {
  # shellcheck disable=SC2086  # the list of sources is meant to be split
  ${CXX:-g++} -std=c++20 -O2 -g1 -DNDEBUG -shared -fPIC -fno-exceptions -fno-rtti \
    -fno-threadsafe-statics -fvisibility=hidden -ftls-model=initial-exec -Isrc -Iinclude \
    "$@" tests/unwind/probe.cpp $sources
}
build -o "$out/libstackprobe.so"
build -DPROBE_PREPARE -o "$out/libstackprepare.so"
