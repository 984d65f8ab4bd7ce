"""Programs that are linked to a shared jemalloc and call its own functions, as Redis 8, Valkey and
BIND do. All of them must be one library's, or each meets blocks of the other's."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import HEAPS, Lab, heap_library

PROGRAM = Path(__file__).resolve().parent / "jemalloc_calls.c"


@pytest.mark.parametrize("option", ["CACHE=auto", "CACHE=thread", "GUARD=1", "HUGEPAGES=off"])
def test_jemallocs_functions(lab: Lab, option: str) -> None:
    lab.require_strata()
    name, _, value = option.partition("=")
    result = lab.run(lab.build(PROGRAM), env={f"STRATA_{name}": value})
    assert result.ok().stdout == "ok\n"


def test_checked(lab: Lab) -> None:
    """Blocks are as large as the program asked; what is freed stays in a quarantine."""
    lab.require_strata()
    result = lab.run(lab.build(PROGRAM), "calls", env={"STRATA_CHECK": "on"})
    assert result.ok().stdout == "ok\n"


def test_stood_down(lab: Lab) -> None:
    """Beside a sanitizer the blocks are its own, as large as was asked."""
    lab.require_strata()
    program = lab.build(PROGRAM, "-fsanitize=leak", name="jemalloc_calls_lsan")
    options = "detect_leaks=0:allocator_may_return_null=1"
    result = lab.run(program, "calls", env={"LSAN_OPTIONS": options})
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.explain()


@pytest.mark.parametrize("heap", HEAPS)
def test_every_heap(lab: Lab, heap: str) -> None:
    library = str(heap_library(lab, heap))
    assert lab.run(lab.build(PROGRAM), "calls", env={"LD_PRELOAD": library}).ok().stdout == "ok\n"
