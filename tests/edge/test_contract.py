"""What glibc's own malloc tests hold it to, in cases of our own.

All of them hold for glibc 2.36 (STRATA_LIB=none).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, cases

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "contract_cases.c"
MODES = pytest.mark.parametrize("mode", ["auto", "thread"])


@MODES
@pytest.mark.parametrize("case", cases(SOURCE))
def test_contract(lab: Lab, case: str, mode: str) -> None:
    lab.run(lab.build(SOURCE), case, env={"STRATA_CACHE": mode}).silent()
