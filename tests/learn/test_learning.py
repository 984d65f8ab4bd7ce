"""`strata run --learn` and `strata lifetimes` on a program whose objects live for known times, and
on Debian's Redis."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from blackbox import ROOT, Lab, Result, wait_until
from strata.learn import known, model_file
from strata.learn.tokens import site_of
from strata.pprof import Profile, load
from strata.report.lifetimes import DIED

PROGRAM = Path(__file__).resolve().parent / "lifetimes.c"
STRATA = (sys.executable, "-m", "strata")


def environment(lab: Lab) -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT / "python"), "STRATA_LIB": str(lab.require_strata())}


def strata(lab: Lab, *words: str | Path) -> Result:
    return lab.run(*STRATA, *words, env=environment(lab), preload=False)


def data_set(lab: Lab, learned: Path) -> pl.DataFrame:
    output = learned.parent / "data.parquet"
    done = strata(lab, "lifetimes", learned, "-o", output)
    assert (done.returncode, done.stderr) == (0, ""), done.explain()
    assert done.stdout.splitlines()[-1] == f"The data set: {output}"
    return pl.read_parquet(output)


def classes_by_function(rows: pl.DataFrame) -> dict[str, int]:
    """Of the functions of lifetimes.c that were sampled more than by chance."""
    rows = rows.filter(pl.col("frames").list.contains("main") & (pl.col("objects") > 500))
    return dict(rows.select(pl.col("frames").list.first(), "label").iter_rows())


def total_of(profile: Profile, value: str) -> int:
    at = profile.index_of(value)
    return sum(sample.values[at] for sample in profile.samples)


def test_functions_get_their_classes(lab: Lab, tmp_path: Path) -> None:
    learned = tmp_path / "learned"
    program = lab.build(PROGRAM)
    done = strata(lab, "run", "--learn", learned, "--set", "SAMPLE=4K", "--", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.explain()
    rows = data_set(lab, learned)
    assert classes_by_function(rows) == {"brief": 1, "a_while": 3, "forever": 8}
    counts = rows.filter(pl.col("frames").list.first() == "brief").select("objects").sum().item()
    assert counts == pytest.approx(30_000, rel=0.2)
    (path,) = learned.iterdir()
    profile = load(path)
    counted = sum(total_of(profile, name) for name in DIED)
    assert counted == pytest.approx(total_of(profile, "objects"), rel=0.01)
    assert path.name.startswith(f"{socket.gethostname()}-{program.name}-")


def test_a_folder_that_was_forgotten_is_missed(lab: Lab, tmp_path: Path) -> None:
    words = ("env", "-C", tmp_path, *STRATA, "run", "--learn", "--", "true")
    done = lab.run(*words, env=environment(lab), preload=False)
    expected = (2, "", "strata: --learn takes a folder: --learn DIR -- COMMAND\n")
    assert (done.returncode, done.stdout, done.stderr) == expected, done.explain()
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_no_file_is_refused_at_once(lab: Lab, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, why in ((pipe, "is a pipe, not a file"), (tmp_path, "is a directory")):
        done = strata(lab, "run", "--model", path, "--", "true")
        expected = (2, "", f"strata: --model {path}: {why}\n")
        assert (done.returncode, done.stdout, done.stderr) == expected, done.explain()


def model_sure_of(token: bytes, stacks: pl.DataFrame, path: Path) -> None:
    """Class 8 where the token is on the stack, 3 elsewhere; the stacks have the class that they
    had."""
    maker = ROOT / "tests/lifetime/make_golden.py"
    spec = importlib.util.spec_from_file_location("make_golden", maker)
    assert spec is not None and spec.loader is not None
    golden = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(golden)
    model = golden.sure_model(token)
    model.known = known.stacks(stacks, lambda *_: np.zeros(model_file.CLASSES, np.float32))
    model_file.write(model, path)


def test_a_process_knows_the_places_that_a_data_set_has(lab: Lab, tmp_path: Path) -> None:
    """All three are called by main: only the place there tells the network that it is `forever`.
    The stacks of `brief` are known."""
    learned, model = tmp_path / "learned", tmp_path / "a.model"
    program = lab.build(PROGRAM)
    options = ("--set", "SAMPLE=4K", "--learn", learned, "--", program)
    assert strata(lab, "run", *options).returncode == 0
    rows = data_set(lab, learned)
    ours = rows.filter(pl.col("frames").list.first() == "forever")
    (main,) = {stack[1] for stack in ours["symbols"].to_list()}
    brief = rows.filter(pl.col("frames").list.first() == "brief")
    model_sure_of(site_of(main), brief, model)
    again = tmp_path / "again"
    idle = ("--set", "SAMPLE=4K", "--learn", again, "--", program, "idle")
    done = strata(lab, "run", "--model", model, *idle)
    assert (done.returncode, done.stderr) == (0, ""), done.explain()
    (path,) = again.iterdir()
    said = {row.names()[-1]: row.label("predicted_class") for row in load(path).samples}
    names = ("brief", "a_while", "forever")
    assert {name: said.get(name) for name in names} == {"brief": 1, "a_while": 3, "forever": 8}


def test_a_program_that_is_killed_has_written_before(lab: Lab, tmp_path: Path) -> None:
    """And while it runs, when nobody has named the functions yet."""
    expected = {"brief": 1, "a_while": 3, "forever": 8}
    learned = tmp_path / "learned"
    options = ("--learn", learned, "--learn-minutes", "0.02", "--set", "SAMPLE=4K")
    command = (*STRATA, "run", *options, "--", lab.build(PROGRAM), "stay")
    with lab.start(*command, env=environment(lab), preload=False) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        ready_ns = time.time_ns()

        def written_since() -> bool:
            return any(path.stat().st_mtime_ns > ready_ns for path in learned.glob("*.pb.gz"))

        assert wait_until(written_since)
        assert classes_by_function(data_set(lab, learned)) == expected
        (path,) = learned.glob("*.pb.gz")
        os.kill(int(path.name.removesuffix(".pb.gz").rpartition("-")[2]), signal.SIGKILL)
        assert process.wait(60) == 128 + signal.SIGKILL
    assert classes_by_function(data_set(lab, learned)) == expected


def test_runs_of_redis_are_one_data_set(lab: Lab, tmp_path: Path) -> None:
    server, client = shutil.which("redis-server"), shutil.which("redis-benchmark")
    if server is None or client is None:
        pytest.skip("no redis-server")
    learned, place = tmp_path / "learned", tmp_path / "redis.sock"
    listening = ("--port", "0", "--unixsocket", str(place), "--save", "", "--dir", str(tmp_path))
    for _ in range(2):
        command = (*STRATA, "run", "--learn", learned, "--set", "SAMPLE=64K", "--", server)
        with lab.start(*command, *listening, env=environment(lab), preload=False) as process:
            assert wait_until(place.exists)
            load = ("-s", place, "-q", "-n", "20000", "-d", "300", "-r", "5000", "-t", "set,lpush")
            assert lab.run(client, *load, preload=False).returncode == 0
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    rows = data_set(lab, learned)
    assert len(list(learned.iterdir())) == 2
    assert set(rows["program"]) == {"redis-server"}
    assert rows.filter(pl.col("profiles") == 2).height >= 3, "contexts that both runs have"
    assert {1, 8} <= set(rows["label"]), "replies that die at once, values that stay"


def test_a_recording_of_all_calls_says_the_same_exactly(lab: Lab, tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    command = (*STRATA, "trace", "-o", recording, "--stacks", "--", lab.build(PROGRAM))
    done = lab.run(*command, env=environment(lab), preload=False)
    assert done.returncode == 0, done.explain()
    rows = data_set(lab, recording)
    assert classes_by_function(rows) == {"brief": 1, "a_while": 3, "forever": 8}


def test_a_recording_without_stacks_is_left_out(lab: Lab, tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    done = lab.run(
        *STRATA,
        "trace",
        "-o",
        recording,
        "--",
        lab.build(PROGRAM),
        env=environment(lab),
        preload=False,
    )
    assert done.returncode == 0, done.explain()
    done = strata(lab, "lifetimes", recording, "-o", tmp_path / "a.parquet")
    assert done.returncode != 0
    assert "without stacks" in done.stderr
