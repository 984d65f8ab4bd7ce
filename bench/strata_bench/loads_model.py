"""A model of the loads' lifetimes for the variant `model`: records each load once with
`strata run --learn` and trains on all of them. BENCH_MODEL names one that is there already."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from strata_bench import loads
from strata_bench.allocators import Allocator
from strata_bench.groups import Variant
from strata_bench.plan import Case

GIVEN = os.environ.get("BENCH_MODEL", "")
MODEL = Path(GIVEN or Path(__file__).resolve().parents[2] / "build" / "bench" / "loads.model")
VARIANT = Variant("model", {"STRATA_LIFETIMES": "model", "STRATA_MODEL": str(MODEL.absolute())})
SAMPLE = "64K"
TRAIN_SECONDS = 300


def strata(*words: str) -> list[str]:
    return [sys.executable, "-m", "strata", *words]


def call(words: list[str], timeout: float) -> str:
    """What went wrong; empty if nothing."""
    environment = Allocator("", "", None).environment()
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return f"no end within {timeout:.0f} s"
    last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return "" if done.returncode == 0 else last[0]


def record(case: Case, lib: Path, programs: Path, folder: Path, *, quick: bool) -> str:
    """Adds the profiles of one run of the load to the folder; says what went wrong."""
    run = strata(
        "run", "--lib", str(lib), "--learn", str(folder), "--set", f"SAMPLE={SAMPLE}", "--"
    )
    return call(
        [*run, *loads.command(case.program, programs, case.quick if quick else case.args)],
        case.timeout,
    )


def provide(cases: Iterable[Case], lib: Path, out: Path, *, quick: bool) -> str:
    """Sees to it that the model is there; says why it is not."""
    if GIVEN:
        return "" if MODEL.exists() else f"BENCH_MODEL: {MODEL} is not there"
    folder = out / "loads-learned"
    shutil.rmtree(folder, ignore_errors=True)
    MODEL.unlink(missing_ok=True)
    for case in cases:
        if why := record(case, lib, out, folder, quick=quick):
            return f"{case.name} could not be recorded: {why}"
    if why := call(strata("train", str(folder), "-o", str(MODEL)), TRAIN_SECONDS):
        return f"no model could be trained: {why}"
    return ""
