"""Reaps from C and C++: what they promise, and what misuse gets."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, cases, need
from misuse import expect_misuse

HERE = Path(__file__).resolve().parent
NAMES = ("reap_cases.c", "reap_fork_cases.c", "reap_cap_cases.c", "reap_misuse_cases.c")
SOURCES = [HERE / name for name in NAMES]
CASES = [(source, case) for source in SOURCES for case in cases(source)]
GOOD = [pytest.param(*c, id=c[1]) for c in CASES if not c[1].startswith("bad_")]
BAD = [pytest.param(*c, id=c[1]) for c in CASES if c[1].startswith("bad_")]


@pytest.mark.parametrize(("source", "case"), GOOD)
@pytest.mark.parametrize("cache", ["auto", "thread"])
def test_reap(lab: Lab, source: Path, case: str, cache: str) -> None:
    lab.run(lab.build_linked(source), case, env={"STRATA_CACHE": cache}, preload=False).silent()


@pytest.mark.parametrize(("source", "case"), BAD)
def test_misuse_is_one_line(lab: Lab, source: Path, case: str) -> None:
    expect_misuse(lab, lab.build_linked(source), case)


INLINE_CALLS = """
#include <strata/reap.h>
int main(void) {
  strata_reap* reap = strata_reap_create(NULL);
  strata_reap_free_inline(reap, strata_reap_malloc_inline(reap, 10));
  return 0;
}
"""
OTHER_LIBRARY = """
#include <strata/reap.h>
const char strata_reap_layout_2 = 1;
strata_reap* strata_reap_create(strata_reap* parent) { return parent; }
void* strata_reap_malloc(strata_reap* reap, size_t size) { return size ? reap : NULL; }
void strata_reap_free(strata_reap* reap, void* p) { (void)reap, (void)p; }
"""


def compiled(source: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    source.write_text(text)
    command = [need("gcc"), str(source), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_inline_calls_of_another_layout_neither_link_nor_start(lab: Lab, tmp_path: Path) -> None:
    """They know how a handle begins, so headers and library of different layouts must not meet."""
    library = lab.require_strata()
    header = (ROOT / "include/strata/reap.h").read_text()
    assert "strata_reap_layout_1" in header
    (tmp_path / "strata").mkdir()
    (tmp_path / "strata/reap.h").write_text(header.replace("_layout_1", "_layout_2"))
    include = f"-I{tmp_path}"
    program, other = str(tmp_path / "program"), str(tmp_path / "libstrata.so.0")

    linked = compiled(tmp_path / "program.c", INLINE_CALLS, include, "-o", program, str(library))
    assert linked.returncode != 0
    assert "undefined reference to `strata_reap_layout_2'" in linked.stderr

    soname = "-Wl,-soname,libstrata.so.0"
    flags = (include, "-shared", "-fPIC", soname, "-o", other)
    assert compiled(tmp_path / "other.c", OTHER_LIBRARY, *flags).returncode == 0
    linked = compiled(tmp_path / "program.c", INLINE_CALLS, include, "-o", program, other)
    assert linked.returncode == 0, linked.stderr
    env = {"LD_LIBRARY_PATH": str(library.parent)}
    started = lab.run(Path(program), env=env, preload=False)
    assert started.returncode == 127, started.explain()
    assert "undefined symbol: strata_reap_layout_2" in started.stderr, started.explain()


WITHOUT_EXCEPTIONS = """
#include <strata/memory_resource.h>
#include <strata/pool_resource.h>
#include <strata/scope.h>
int main(int argc, char**) {
  strata::scope request;
  strata::pool_resource pool;
  strata::reap reap;
  strata::reap_resource one(reap), other(reap), own;
  strata::memory_resource process, again;
  if (one != other || one == own || one == process || process != again) return 2;
  pool.deallocate(pool.allocate(100), 100);
  if (argc == 1) reap.set_cap(10000);
  return reap.allocate(100000) == nullptr;
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_classes_without_exceptions_and_rtti(lab: Lab, compiler: str, tmp_path: Path) -> None:
    """Out of memory is one line and the end."""
    library = lab.require_strata()
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(WITHOUT_EXCEPTIONS)
    flags = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror"]
    include = f"-I{ROOT}/include"
    command = [need(compiler), *flags, include, str(source), "-o", str(program), str(library)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert built.returncode == 0, built.stderr
    env = {"LD_LIBRARY_PATH": str(library.parent)}
    lab.run(program, "enough", env=env, preload=False).silent()
    died = lab.run(program, env=env, preload=False)
    assert died.returncode == -signal.SIGABRT, died.explain()
    assert died.stderr == "strata: out of memory, and no exceptions to say so\n", died.explain()


def test_containers(lab: Lab) -> None:
    lab.run(lab.build_linked(HERE / "reap_containers.cpp"), preload=False).silent()
