"""`strata run --heap NAME`: the heap's library is found, loaded, and told apart from Strata's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blackbox import HEAPS, ROOT, Lab, Result, heap_library, need

SHOW = 'for p in $LD_PRELOAD; do basename "$p"; done'


def strata_run(lab: Lab, *arguments: str, library: Path | None = None) -> Result:
    """`strata run`, with the library named by --lib."""
    where = library or lab.require_strata()
    python = {"PYTHONPATH": str(ROOT / "python")}
    command = (sys.executable, "-m", "strata", "run", "--lib", str(where), *arguments)
    return lab.run(*command, preload=False, env=python)


@pytest.mark.parametrize("heap", HEAPS)
def test_loads_the_heap(lab: Lab, heap: str) -> None:
    result = strata_run(lab, "--heap", heap, "--", "sh", "-c", SHOW).ok()
    assert result.stdout == f"libstrata-{heap}.so\n"
    maps = strata_run(lab, "--heap", heap, "--", "cat", "/proc/self/maps").ok().stdout
    assert f"libstrata-{heap}.so" in maps and "libstrata.so" not in maps


def test_strata_is_the_default(lab: Lab) -> None:
    given = f"{lab.require_strata().name}\n"  # as it was named: CI gives the file behind the links
    assert strata_run(lab, "--", "sh", "-c", SHOW).ok().stdout == given
    assert strata_run(lab, "--heap", "strata", "--", "sh", "-c", SHOW).ok().stdout == given


def test_unknown_heap_names_those_there_are(lab: Lab) -> None:
    result = strata_run(lab, "--heap", "nosuch", "--", "true")
    assert result.returncode == 2, result.explain()
    (line,) = result.strata_lines()
    assert "no libstrata-nosuch.so" in line
    assert all(heap in line for heap in ("strata", *HEAPS))


def test_missing_heap_is_said(lab: Lab, tmp_path: Path) -> None:
    alone = tmp_path / "libstrata.so"
    shutil.copy(lab.require_strata(), alone)
    result = strata_run(lab, "--heap", "kingsley", "--", "true", library=alone)
    assert result.returncode == 2
    assert f"no libstrata-kingsley.so in {tmp_path}" in result.stderr


def test_another_library_by_that_name_is_refused(lab: Lab, tmp_path: Path) -> None:
    shutil.copy(lab.require_strata(), tmp_path / "libstrata.so")
    empty = tmp_path / "empty.c"
    empty.write_text("int nothing;\n")
    fake = tmp_path / "libstrata-fake.so"
    subprocess.run([need("gcc"), "-shared", "-fPIC", str(empty), "-o", str(fake)], check=True)
    library = tmp_path / "libstrata.so"
    result = strata_run(lab, "--heap", "fake", "--", "true", library=library)
    assert result.returncode == 2
    assert "not Strata's" in result.stderr


def test_stats_are_strata_s_own(lab: Lab) -> None:
    result = strata_run(lab, "--heap", "kingsley", "--stats", "--", "echo", "done")
    assert (result.returncode, result.stdout) == (0, "done\n"), result.explain()
    assert result.strata_lines() == ["strata: no stats: the heap kingsley keeps none"]


@pytest.mark.parametrize("option", ["--cache=thread", "--release=off", "--set=HEAP_LIMIT=1G"])
def test_options_are_strata_s_own(lab: Lab, option: str) -> None:
    result = strata_run(lab, "--heap", "kingsley", option, "--", "true")
    assert result.returncode == 2
    (line,) = result.strata_lines()
    assert line.startswith(f"strata: {option.partition('=')[0]} goes with Strata's own heap")


@pytest.mark.parametrize("heap", HEAPS)
def test_the_library_is_like_strata_s(lab: Lab, heap: str) -> None:
    """It needs libc alone, takes no static TLS to speak of, and exports the same malloc."""
    library = heap_library(lab, heap)

    def tool(*command: str, of: Path = library) -> str:
        return subprocess.run(
            [*command, str(of)], check=True, capture_output=True, text=True
        ).stdout

    needed = [line for line in tool("readelf", "-dW").splitlines() if "(NEEDED)" in line]
    assert all("libc.so.6" in line or "ld-linux" in line for line in needed)
    tls = [line.split()[5] for line in tool("readelf", "-lW").splitlines() if "  TLS " in line]
    assert sum(int(size, 16) for size in tls) <= 64

    def exports(path: Path) -> set[str]:
        listing = tool("nm", "-D", "--defined-only", "--format=posix", of=path).splitlines()
        return {line.split()[0] for line in listing}

    own = {"malloc_trim", "mallinfo", "mallinfo2", "mallopt", "malloc_info", "malloc_stats"}
    # What Strata stands before for its thread's and its caches' sake.
    own |= {"prctl", "syscall", "unshare", "setns", "capset", "vfork", "__vfork"}
    own |= {f"set{e}{who}" for e in ("", "e", "re", "res") for who in ("uid", "gid")}
    own |= {"setgroups", "initgroups"}
    own |= {
        "mallctl",
        "mallctlnametomib",
        "mallctlbymib",
        "malloc_stats_print",
    }  # about its own figures
    common = {
        name
        for name in exports(lab.require_strata()) - own
        if not name.startswith("strata_")
        and "hot_cold" not in name
        and "__size_returning" not in name
    }
    assert common - exports(library) == set()
    assert {n for n in exports(library) - common if "strata_" in n} == {"strata_heap_name"}
