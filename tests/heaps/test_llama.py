"""libstrata-llama.so: what it holds when threads come and go, and when lifetimes differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import ROOT, TESTS, Lab, heap_library


@pytest.fixture
def llama(lab: Lab, tmp_path: Path) -> Lab:
    return Lab(heap_library(lab, "llama"), tmp_path)


def test_threads_that_exit_leave_nothing_behind(llama: Lab) -> None:
    """Much longer than its predictions need to settle."""
    program = llama.build(TESTS / "process/thread_cases.c")
    llama.run(program, "come_and_go", "50000").silent()


def fields_of(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split())


def test_learns_to_keep_survivors_apart(llama: Lab) -> None:
    """Of a heap that swings, one object in 10,000 stays: learned, they do not hold the rest."""
    program = llama.build(ROOT / "bench/programs/oscillation.cpp", "-O2")
    options = ("--mib=256", "--cycles=6", "--learn=2", "--idle=0")
    told = fields_of(llama.run(program, *options, "--told=1").ok().stdout)
    assert int(told["rss_kib"]) < int(told["hwm_kib"]) / 3
    blind = fields_of(llama.run(program, *options).ok().stdout)
    assert int(blind["rss_kib"]) > int(told["rss_kib"]) * 2
