"""A clock of another preloaded library, which allocates, or of the program: the library must not
read that one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from blackbox import HEAPS, Lab, heap_library, need

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("first", ["strata", "clock"])
def test_a_clock_that_allocates(lab: Lab, first: str) -> None:
    clock = lab.build(HERE / "own_clock.c", "-shared", "-fPIC", name="libown_clock")
    both = [str(lab.require_strata()), str(clock)]
    preload = " ".join(both if first == "strata" else reversed(both))
    result = lab.run(
        "/bin/sh", "-c", "echo $(date +%s | grep -c .)", env={"LD_PRELOAD": preload}, timeout=10
    )
    assert result.ok().stdout == "1\n"


@pytest.mark.parametrize("heap", HEAPS)
def test_every_heap(lab: Lab, heap: str) -> None:
    clock = lab.build(HERE / "own_clock.c", "-shared", "-fPIC", name="libown_clock")
    preload = f"{heap_library(lab, heap)} {clock}"
    result = lab.run("/bin/sh", "-c", "date | cat", env={"LD_PRELOAD": preload}, timeout=10)
    assert result.ok().stdout


def test_the_clock_of_a_static_program(lab: Lab, tmp_path: Path) -> None:
    archive = lab.require_strata().with_name("libstrata.a")
    program = tmp_path / "program"
    source = (HERE / "program_clock.c", archive)
    subprocess.run([need("gcc"), "-w", "-pthread", "-static", "-o", program, *source], check=True)
    lab.run(program, preload=False).silent()
