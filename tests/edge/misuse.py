"""What a misuse that the run time notices gets, in reaps and scopes alike."""

from __future__ import annotations

import signal
from pathlib import Path

from blackbox import Lab


def expect_misuse(lab: Lab, program: Path, case: str) -> None:
    """One line and SIGABRT; one line and the program goes on where that was asked for."""
    died = lab.run(program, case, preload=False)
    assert died.returncode == -signal.SIGABRT, died.explain()
    assert len(died.strata_lines()) == 1, died.explain()
    assert len(died.stderr.splitlines()) == 1, died.explain()
    went_on = lab.run(program, case, env={"STRATA_ON_ERROR": "ignore"}, preload=False)
    assert went_on.returncode == 0, went_on.explain()
    assert len(went_on.strata_lines()) == 1, went_on.explain()
