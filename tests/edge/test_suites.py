"""What the test suites of mimalloc, jemalloc, snmalloc and tcmalloc ask of any malloc.

All of it holds for glibc 2.36 too (STRATA_LIB=none).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, cases

HERE = Path(__file__).resolve().parent
CASES = [
    (source, case)
    for source in (HERE / "suite_cases.c", HERE / "suite_cases.cpp")
    for case in cases(source)
]


@pytest.mark.parametrize("mode", ["auto", "thread"])
@pytest.mark.parametrize(("source", "case"), CASES, ids=[case for _, case in CASES])
def test_suites(lab: Lab, source: Path, case: str, mode: str) -> None:
    lab.run(lab.build(source), case, env={"STRATA_CACHE": mode}).silent()
