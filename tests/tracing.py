"""What the tests of `strata trace` and `strata replay` share: the commands, the replayer,
and whether a replay follows its trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import forked_strata
import numpy as np
import polars as pl
from blackbox import ROOT, Lab, Result
from strata.trace.analyze import live_bytes, objects
from strata.trace.command import find_tool
from strata.trace.read import Trace, read_trace

STRATA = (sys.executable, "-m", "strata")


def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT / "python")}


def strata(lab: Lab, *words: str | Path, timeout: float = 120) -> Result:
    """The command line tool, without any preload of its own."""
    return lab.run(*STRATA, *words, env=environment(), preload=False, timeout=timeout)


def forked(*words: str | Path, modules: tuple[str, ...] = ("numpy", "polars")) -> Result:
    """The same on a wide terminal and sooner, for tests that type many commands."""
    begin = time.monotonic()
    done = forked_strata.strata(*words, columns=300, modules=modules)
    seconds = time.monotonic() - begin
    return Result(["strata", *done.args], done.returncode, done.stdout, done.stderr, seconds)


def record(lab: Lab, output: Path, *command: str | Path, options: tuple[str, ...] = ()) -> Result:
    return strata(lab, "trace", "-o", output, *options, "--", *command)


def of_size(trace: Trace, size: int) -> pl.DataFrame:
    return objects(trace).filter(pl.col("size") == size)


def replayed(
    path: Path, *options: str, preload: Path | None = None, touch: str = "none"
) -> dict[str, object]:
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if preload is not None:
        env["LD_PRELOAD"] = str(preload)
    tool = find_tool("strata-replay")
    done = subprocess.run(
        [tool, "--touch", touch, *options, path],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def curve_of(answer: dict[str, object]) -> list[tuple[int, int]]:
    samples = answer["samples"]
    assert isinstance(samples, list)
    return [(calls, live) for calls, live, _ in samples]


def assert_replay_follows(path: Path, preload: Path | None = None) -> None:
    """The replay's live bytes are the trace's, at each sample, in the exact order; with threads at
    the end."""
    trace = read_trace(path)
    live, sequence = live_bytes(trace), trace.events["sequence"].to_numpy()
    answer = replayed(path, "--samples", "500", preload=preload)
    assert answer["failures"] == 0
    assert answer["events"] == len(live)
    for calls, there in curve_of(answer):
        place = int(np.searchsorted(sequence, calls, "right")) - 1
        assert there == live[place], f"after {calls} calls"
    assert answer["peak_live"] == live.max()
    threaded = replayed(path, "--threads", preload=preload)
    assert threaded["failures"] == 0
    assert threaded["end_live"] == live[-1]
    assert threaded["peak_live"] == live.max()
