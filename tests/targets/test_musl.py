"""The library built for musl: programs in C, static and dynamic, with rseq registered by it.

And what it asks of libc: nothing that musl has not.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, TESTS, Lab

HERE = Path(__file__).resolve().parent
MUSL = Path("/lib/ld-musl-x86_64.so.1")
WAYS = pytest.mark.parametrize("way", ["static", "preloaded"])


def run_case(lab: Lab, way: str, source: Path, *args: str) -> str:
    """Builds a program that way and runs it; what it wrote to stdout, which is all it may write."""
    if way == "preloaded":
        return lab.run(lab.build(source, "-rdynamic"), *args).ok().stdout
    # The archive comes before the source: --undefined makes the linker take it all the same.
    link = ("-static", "-Wl,--undefined=malloc", os.environ["STRATA_ARCHIVE"])
    program = lab.build(source, *link, name=f"static-{source.stem}")
    return lab.run(program, *args, preload=False).ok().stdout


@WAYS
def test_caches_are_per_cpu(lab: Lab, way: str) -> None:
    """By a registration of the library's own: musl makes none."""
    assert run_case(lab, way, HERE / "cache_mode.c").startswith("per-cpu")


@WAYS
@pytest.mark.parametrize(
    ("source", "args"),
    [
        ("edge/api_cases.c", ("calloc_overflow",)),
        ("edge/api_cases.c", ("errno_kept_on_success",)),
        ("edge/api_cases.c", ("realloc_grows_and_shrinks",)),
        ("preload/program_clock.c", ()),
        ("process/fork_storm.c", ("storm", "60", "4", "2000")),
        ("targets/forks.c", ()),
        ("targets/detached.c", ()),
    ],
)
def test_case(lab: Lab, way: str, source: str, args: tuple[str, ...]) -> None:
    assert run_case(lab, way, TESTS / source, *args) == ""


def symbols(path: Path, *options: str) -> set[str]:
    """Names that nm lists, without versions."""
    out = subprocess.run(
        ["nm", "-D", *options, str(path)], check=True, capture_output=True, text=True
    )
    return {line.split()[-1].split("@")[0] for line in out.stdout.splitlines()}


def test_needs_nothing_that_musl_has_not(lab: Lab) -> None:
    library = lab.library
    assert library is not None
    wanted = symbols(library, "--undefined-only")
    weak = {
        line.split()[-1]
        for line in subprocess.run(
            ["nm", "-D", "--undefined-only", str(library)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        if line.split()[-2] in "wv"
    }
    assert len(wanted - weak) > 20
    assert wanted - weak - symbols(MUSL.resolve(), "--defined-only") == set()


def strata_run(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """`strata run` as a user calls it."""
    command = [str(ROOT / ".venv/bin/strata"), "run", *map(str, args)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env)


def test_strata_run_takes_the_library_that_fits(lab: Lab) -> None:
    done = strata_run(lab.build(HERE / "cache_mode.c"))
    assert done.stdout.startswith("per-cpu") and done.stderr == "", done


def test_strata_run_says_why_this_library_does_not_fit(lab: Lab) -> None:
    assert lab.library is not None
    done = strata_run("--lib", lab.library, "/bin/true")
    assert "uses glibc, and the library is built for musl" in done.stderr, done
