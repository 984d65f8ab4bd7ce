"""Random operations against a model: content, overlap, alignment, zeroing, across threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab

SOURCE = Path(__file__).resolve().parent / "shadow.c"
MIB = 1 << 20


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("mode", ["auto", "thread"])
def test_random_operations(lab: Lab, seed: int, mode: str) -> None:
    program = lab.build(SOURCE, "-O2")
    env = {"STRATA_CACHE": mode}
    lab.run(program, "run", str(seed), "40000", "1", str(4 * MIB), env=env).silent()


@pytest.mark.parametrize("mode", ["auto", "thread"])
def test_threads_free_each_others_blocks(lab: Lab, mode: str) -> None:
    program = lab.build(SOURCE, "-O2")
    env = {"STRATA_CACHE": mode}
    lab.run(program, "run", "7", "25000", "6", str(4 * MIB), env=env).silent()
    lab.run(program, "run", "8", "300000", "4", "600", env=env).silent()
