"""What the report advises where a model predicts lifetimes, followed and measured. Training takes
the machine for a while: only where STRATA_TEST_MACHINE=1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from advising import CASES, Report, follows, running
from blackbox import Lab
from command import good
from forked_strata import strata
from strata.report import predictions

pytestmark = pytest.mark.skipif(
    os.environ.get("STRATA_TEST_MACHINE") != "1", reason="trains models: STRATA_TEST_MACHINE=1"
)
LIVES = CASES.with_name("advice_lives.c")


def trained(program: Path, folder: Path, milliseconds: int) -> Path:
    """By the commands of the advice, on a run of so long."""
    learned, model = folder / f"learned-{milliseconds}", folder / f"{milliseconds}.model"
    options = ("--learn", learned, "--set", "SAMPLE=4K")
    good("run", *options, "--", program, milliseconds)
    done = strata("train", learned, "-o", model, modules=("jax", "numpy", "optax", "polars"))
    assert done.returncode == 0, done.stderr
    return model


@follows("Record the program as it is now", "If the recording for the model ended before such")
def test_a_model_of_a_recording_that_was_too_short(lab: Lab, tmp_path: Path) -> None:
    """What was alive at its end counts as never freed. A longer one has their lives."""
    program = lab.build(LIVES)
    right = []
    for milliseconds in (150, 6000):
        model = trained(program, tmp_path, milliseconds)
        env = {"STRATA_MODEL": str(model), "STRATA_SAMPLE": "16K"}
        with running(lab, program, env=env) as pid:
            report = Report(pid, tmp_path / str(milliseconds))
        if milliseconds == 150:
            assert "train a model anew" in report["predictions"].text
            assert "first of all those of MakeLonger" in report["wrong-sites"].text
        else:
            assert "train" not in report["predictions"].text
            wrong = report.get("wrong-sites")
            assert wrong is None or "train" not in wrong.text
        recording = report.recording
        found = predictions.contexts(recording.profiles.get("lifetime"))
        verdict = predictions.judge(found, recording.meta.number("age"))
        right.append((verdict.right + verdict.near) / verdict.judged)
    assert right[0] < 0.8 < 0.95 < right[1], right
