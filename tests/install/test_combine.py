"""cmake/StrataCombine.cmake takes the tools that can make one object for the archive, whatever
they are called and whichever CMake found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, need

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(Combine LANGUAGES CXX)
include("{ROOT}/cmake/StrataCombine.cmake")
strata_find_combiner()
"""
# As ld.lld 14 does.
REFUSES = """#!/bin/sh
for word; do
  case $word in --force-group-allocation) echo "ld.lld: error: unknown argument" >&2; exit 1;; esac
done
exec {ld} "$@"
"""
# Worse: it says that all is well, and has left out what followed the first object.
HALVES = """#!/bin/sh
exec {ld} -r -o "$4" "$5"
"""
COMPILERS = [name for name in ("g++", "clang++-19", "clang++") if shutil.which(name)]


def chosen(folder: Path, compiler: str, *, first: Path | None = None, **cache: Path) -> str:
    """The linker that is taken. `first` is looked through before the rest of PATH."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / "CMakeLists.txt").write_text(PROJECT)
    build = folder / "build"
    shutil.rmtree(build, ignore_errors=True)
    path = os.environ["PATH"] if first is None else f"{first}:{os.environ['PATH']}"
    command = ["cmake", "-S", source, "-B", build, f"-DCMAKE_CXX_COMPILER={need(compiler)}"]
    command += ["-DCMAKE_CXX_COMPILER_WORKS=1"]
    command += [f"-D{name}={value}" for name, value in cache.items()]
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | {"PATH": path},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    found = re.search(
        r"^STRATA_COMBINE_LINKER:\w+=(.+)", (build / "CMakeCache.txt").read_text(), re.M
    )
    assert found is not None
    return found[1]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.format(ld=need("ld")))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("text", [REFUSES, HALVES], ids=["refuses", "halves"])
def test_a_linker_that_cannot_is_passed_over(tmp_path: Path, text: str) -> None:
    unable = script(tmp_path / "bin" / "ld.lld", text)
    assert chosen(tmp_path, COMPILERS[-1], first=unable.parent) != str(unable)
    assert chosen(tmp_path, "g++", CMAKE_LINKER=unable) != str(unable)


def test_the_linker_that_was_asked_for_is_taken_if_it_can(tmp_path: Path) -> None:
    able = script(tmp_path / "bin" / "my-ld", '#!/bin/sh\nexec {ld} "$@"\n')
    assert chosen(tmp_path, "g++", STRATA_COMBINE_LINKER=able) == str(able)


def test_a_real_lld(tmp_path: Path) -> None:
    """Where one is installed; 14 cannot, later ones may."""
    lld = shutil.which("ld.lld") or shutil.which("ld.lld-14")
    if lld is None:
        pytest.skip("no lld is installed")
    linker = chosen(tmp_path, COMPILERS[-1], CMAKE_LINKER=Path(lld))
    version = subprocess.run([str(lld), "--version"], check=True, text=True, capture_output=True)
    if re.search(r"LLD 1[0-8]\.", version.stdout):
        assert linker != lld
