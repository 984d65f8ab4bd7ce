"""Each public header compiles alone and without a warning, in C and C++, also where a project asks
for more of them than -Wall: the compiler takes what it finds by -I for the program's own. Those of
folders are looked at by one compiler, not translated: fifteen seconds of CPU. What they warn of,
both say of strata/layers.h, which includes most."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parent.parent.parent / "include"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Wcast-qual", "-Werror")
CXX = ("-std=c++20", "-Wsign-conversion", "-Wold-style-cast", "-Wcast-align")
# It makes a heap a malloc, and needs one; it needs APR's own headers.
NOT_ALONE = {"as_malloc.h", "apr.h"}
TOP = INCLUDE / "strata"
HEADERS = sorted(p.name for p in TOP.glob("*.h") if p.name not in NOT_ALONE)
OF_FOLDERS = sorted(
    str(path.relative_to(TOP)) for path in TOP.rglob("*/*.h") if path.parent.name != "detail"
)
OF_C = ("hot.h", "reap.h", "scope.h", "strata.h")


def compile_alone(header: str, *command: str) -> None:
    done = subprocess.run(
        [*command, *WARNINGS, f"-I{INCLUDE}", "-o", "/dev/null", "-"],
        input=f"#include <strata/{header}>\nint main(void) {{ return 0; }}\n",
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_warns_of_nothing_in_cxx(compiler: str, header: str) -> None:
    compile_alone(header, compiler, *CXX, "-O2", "-c", "-xc++")


@pytest.mark.parametrize("header", OF_FOLDERS)
def test_of_a_folder_compiles_alone(header: str) -> None:
    compile_alone(header, "g++", *CXX, "-fsyntax-only", "-xc++")


@pytest.mark.parametrize("header", OF_C)
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_warns_of_nothing_in_c(compiler: str, header: str) -> None:
    compile_alone(header, compiler, "-std=c99", "-Wstrict-prototypes", "-O2", "-c", "-xc")


# Checked for null, a bit count looked to gcc as if it could be less than the classes begin with.
BINS = """
#include <strata/layers.h>
using namespace strata::layers;
int main(int argc, char**) {
  Stack<Bins<Geometric<4096>, FreeList>, Bump<>, Mmap> heap;
  const size_t size = 1 + (static_cast<unsigned>(argc) >> 8) % 2000;
  heap.deallocate(heap.allocate(size), size);
}
"""


def test_bins_warn_of_nothing_under_the_sanitizer() -> None:
    done = subprocess.run(
        ["g++", *CXX, *WARNINGS, "-O2", "-fsanitize=undefined", f"-I{INCLUDE}", "-c", "-xc++",
         "-o", "/dev/null", "-"],
        input=BINS, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
