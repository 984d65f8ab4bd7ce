"""mlockall(MCL_FUTURE) with the usual RLIMIT_MEMLOCK: every mapping counts against 8 MiB, so the
heap has to do with small ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blackbox import Lab, missing

HERE = Path(__file__).resolve().parent
MCL_FUTURE = 2
MIB = 1 << 20


@pytest.mark.parametrize("warm", [False, True])
def test_memory_is_there_until_the_limit(lab: Lab, warm: bool) -> None:
    if os.geteuid() != 0:
        missing("to give up root's rights")
    program = lab.build(HERE / "locked.c")
    arguments = (str(MCL_FUTURE), str(int(warm)))
    for preload in (False, True):
        result = lab.run(program, *arguments, preload=preload).ok()
        small, large, rest = map(int, result.stdout.split())
        assert small >= MIB, result.explain()
        assert large >= MIB, result.explain()
        assert rest < 64 * MIB, result.explain()  # there is an end, and it is ENOMEM
