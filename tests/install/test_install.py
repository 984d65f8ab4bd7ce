"""An installed Strata, as a user finds it: headers, pkg-config, find_package, both libraries.

Every way of linking builds the same two probes, which prove from inside that the malloc they run
on is Strata's and not libc's.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from blackbox import HEAPS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build/release"))
VERSION = re.search(r"project\(Strata VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
COMPILER = {"probe.c": "cc", "probe.cpp": "c++"}
FLAGS = ("-O1", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror")

CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(Consumer LANGUAGES C CXX)
find_package(Strata {version} REQUIRED)
set(CMAKE_CXX_STANDARD 20)
foreach(kind strata static)
  add_executable(c_${{kind}} {here}/probe.c)
  add_executable(cpp_${{kind}} {here}/probe.cpp)
  foreach(program c_${{kind}} cpp_${{kind}})
    target_compile_definitions(${{program}} PRIVATE VERSION="{version}")
    target_link_libraries(${{program}} PRIVATE Strata::${{kind}})
  endforeach()
endforeach()
"""


# Strata warns of a STRATA_ variable that it does not know, and ctest sets some for the tests.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}


def run(*command: str | Path, **env: str) -> str:
    """The output of a command that has to succeed."""
    done = subprocess.run(
        list(map(str, command)),
        env=CLEAN | env,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def version() -> str:
    """The version that CMakeLists.txt names."""
    assert VERSION is not None
    return VERSION[1]


def libdir(prefix: Path) -> Path:
    """Where the libraries are: lib, or Debian's lib/TRIPLET if the build is configured for /usr."""
    return next(prefix.glob("lib/**/libstrata.so.0")).parent


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh installation, moved after the fact: nothing in it may hold an absolute path."""
    root = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", root / "made")
    (root / "made").rename(root / "moved")
    return root / "moved"


def test_installed_files(prefix: Path) -> None:
    for name in ("libstrata.so", "libstrata.so.0", "libstrata.a", "pkgconfig/strata.pc"):
        assert (libdir(prefix) / name).exists(), name
    for heap in HEAPS:
        assert (libdir(prefix) / f"libstrata-{heap}.so").exists(), heap
    assert (prefix / "include/strata/strata.h").exists()
    assert (libdir(prefix) / "libstrata.so").readlink() == Path("libstrata.so.0")


def test_destdir(tmp_path: Path) -> None:
    run("cmake", "--install", BUILD, "--prefix", "/opt/strata", DESTDIR=str(tmp_path))
    assert libdir(tmp_path / "opt/strata").exists()


@pytest.mark.parametrize("source", COMPILER)
def test_pkg_config(prefix: Path, tmp_path: Path, version: str, source: str) -> None:
    path = {"PKG_CONFIG_PATH": str(libdir(prefix) / "pkgconfig")}
    assert run("pkg-config", "--modversion", "strata", **path).strip() == version
    flags = run("pkg-config", "--cflags", "--libs", "strata", **path).split()
    program = tmp_path / "program"
    define = f'-DVERSION="{version}"'
    run(COMPILER[source], *FLAGS, define, HERE / source, *flags, "-o", program)
    assert run(program, LD_LIBRARY_PATH=str(libdir(prefix))) == "strata\n"


def test_pkg_config_leaves_what_follows_alone(prefix: Path, tmp_path: Path) -> None:
    """A library wanted for its constructor stays; an archive that follows gets Strata's malloc."""
    path = {"PKG_CONFIG_PATH": str(libdir(prefix) / "pkgconfig")}
    flags = run("pkg-config", "--libs", "strata", **path).split()
    static = run("pkg-config", "--static", "--libs", "strata", **path).split()
    (tmp_path / "bar.c").write_text("#include <stdlib.h>\nvoid* bar(void) { return malloc(9); }\n")
    (tmp_path / "main.c").write_text("void* bar(void); int main(void) { return bar() == 0; }\n")
    (tmp_path / "none.c").write_text("int main(void) { return 0; }\n")
    at = {name: tmp_path / name for name in ("bar.c", "main.c", "none.c", "bar.o", "p", "q")}
    run("gcc", "-shared", "-fPIC", at["bar.c"], "-o", tmp_path / "libfoo.so")
    run("gcc", "-Wl,--no-as-needed", at["none.c"], *flags, f"-L{tmp_path}", "-lfoo", "-o", at["p"])
    needed = run("readelf", "-dW", at["p"])
    assert "[libfoo.so]" in needed
    assert "[libstrata.so.0]" in needed
    run("gcc", "-c", at["bar.c"], "-o", at["bar.o"])
    run("ar", "rcs", tmp_path / "libbar.a", at["bar.o"])
    for kind in "-static", "-static-pie":
        run("gcc", kind, at["main.c"], *static, f"-L{tmp_path}", "-lbar", "-o", at["q"])
        assert " T strata_stats\n" in run("nm", at["q"])
        run(at["q"])


@pytest.mark.parametrize("source", COMPILER)
def test_static_archive(prefix: Path, tmp_path: Path, version: str, source: str) -> None:
    program = tmp_path / "program"
    define = f'-DVERSION="{version}"'
    include = f"-I{prefix / 'include'}"
    archive = libdir(prefix) / "libstrata.a"
    run(COMPILER[source], *FLAGS, define, include, HERE / source, archive, "-o", program)
    assert run(program) == "strata\n"
    assert "libstrata" not in run("readelf", "-dW", program)
    # Named by a shared library, so the program has to offer it to the dynamic linker.
    exported = run("nm", "-D", "--defined-only", program)
    assert re.search(r" T malloc$", exported, re.MULTILINE)


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_layers(prefix: Path, tmp_path: Path, compiler: str) -> None:
    program = tmp_path / "program"
    include = f"-I{prefix / 'include'}"
    run(compiler, "-std=c++20", *FLAGS, include, HERE / "layers.cpp", "-o", program)
    run(program)


def test_archive_is_all_or_nothing(prefix: Path) -> None:
    """With two members a program could get malloc from one and free from libc."""
    assert len(run("ar", "t", libdir(prefix) / "libstrata.a").split()) == 1


def test_archive_hides_its_insides(prefix: Path) -> None:
    names = run("nm", "-C", "--defined-only", "--extern-only", libdir(prefix) / "libstrata.a")
    assert " T malloc\n" in names
    assert [line for line in names.splitlines() if "strata::" in line] == []


def test_find_package(prefix: Path, tmp_path: Path, version: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.format(version=version, here=HERE))
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    for program in ("c_strata", "cpp_strata", "c_static", "cpp_static"):
        assert run(build / program) == "strata\n", program


# A heap in five lines, and in a project of the user's the four of docs/heaps.md.
HEAP = """
#include <strata/layers.h>
using Mine = strata::layers::Stack<
    strata::layers::Locked, strata::layers::Count, strata::layers::SizeHeader,
    strata::layers::Bins<strata::layers::Geometric<8192>, strata::layers::FreeList>,
    strata::layers::Bump<>, strata::layers::Mmap>;
#define STRATA_HEAP Mine
#include <strata/as_malloc.h>
extern "C" __attribute__((visibility("default"))) size_t mine_peak() {
  return strata::layers::layer<strata::layers::Count>(Front::heap()).counts().peak_bytes;
}
"""
PAGE = (ROOT / "docs/heaps.md").read_text()
USE = """
import ctypes, json, subprocess, threading
words = [json.dumps({"n": n}) for n in range(10_000)]
threads = [threading.Thread(target=lambda: [str(n) for n in range(1000)]) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert subprocess.run(["true"], check=True).returncode == 0
peak = ctypes.CDLL(None).mine_peak
peak.restype = ctypes.c_size_t
print((ctypes.c_char * 5).in_dll(ctypes.CDLL(None), "strata_heap_name").value, peak() > 1 << 20)
"""


@pytest.mark.parametrize(
    ("compiler", "of_project"), [("g++", ""), ("clang++-19", "-fno-exceptions -fno-rtti")]
)
def test_a_heap_of_ones_own_as_malloc(
    prefix: Path, tmp_path: Path, compiler: str, of_project: str
) -> None:
    """Built by an installed Strata's CMake alone, and preloaded into a real program."""
    project = re.search(r"```cmake\n(.*?)```", PAGE, re.S)
    assert project is not None
    assert len(project[1].splitlines()) <= 10
    (tmp_path / "CMakeLists.txt").write_text(project[1])
    (tmp_path / "mine.cpp").write_text(HEAP)
    build = tmp_path / "build"
    flags = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}"]
    flags += ["-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_FLAGS={of_project}"]
    run("cmake", "-S", tmp_path, "-B", build, *flags)
    run("cmake", "--build", build)
    library = build / "libmine.so"
    said = run("python3", "-c", USE, LD_PRELOAD=str(library), PYTHONMALLOC="malloc")
    assert said == "b'Mine' True\n"
    exported = set(re.findall(r" [TW] (\w+)$", run("nm", "-D", library), re.M))
    assert {"malloc", "calloc", "realloc", "free", "posix_memalign", "_Znwm", "_ZdlPv"} <= exported
