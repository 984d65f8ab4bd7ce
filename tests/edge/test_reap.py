"""Reaps from C and C++: what they promise, and what misuse gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, cases
from misuse import expect_misuse

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "reap_cases.c"
GOOD = [case for case in cases(SOURCE) if not case.startswith("bad_")]
BAD = [case for case in cases(SOURCE) if case.startswith("bad_")]


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("cache", ["auto", "thread"])
def test_reap(lab: Lab, case: str, cache: str) -> None:
    lab.run(lab.build_linked(SOURCE), case, env={"STRATA_CACHE": cache}, preload=False).silent()


@pytest.mark.parametrize("case", BAD)
def test_misuse_is_one_line(lab: Lab, case: str) -> None:
    expect_misuse(lab, lab.build_linked(SOURCE), case)


@pytest.mark.parametrize("case", cases(HERE / "reap_thread_cases.c"))
def test_a_thread_that_starts_in_a_miss_may_use_reaps(lab: Lab, case: str) -> None:
    lab.run(lab.build_linked(HERE / "reap_thread_cases.c"), case, preload=False).silent()


def test_containers(lab: Lab) -> None:
    lab.run(lab.build_linked(HERE / "reap_containers.cpp"), preload=False).silent()
