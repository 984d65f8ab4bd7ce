"""STRATA_LIFETIMES=online and =model: what stays of a burst comes to lie apart from what does not,
by the call path alone; without it everything is as before."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from blackbox import Lab, switches
from bursting import HERE, PROGRAM, SURE, burst


@pytest.mark.parametrize("cache", ["cpu", "thread"])
@pytest.mark.parametrize("threads", ["one", "many"])
def test_what_stays_comes_to_lie_apart(lab: Lab, tmp_path: Path, threads: str, cache: str) -> None:
    done, predictions = burst(lab, tmp_path, threads, LIFETIMES="online", CACHE=cache)
    assert done.stdout == "apart\n"
    # The wrapper, and one of its callers; and what else of the program was found to last.
    assert predictions["places"] >= 2
    assert predictions["lasting_live"] > 0


def test_without_the_background_thread_nothing_is_learned(lab: Lab, tmp_path: Path) -> None:
    _, predictions = burst(lab, tmp_path, "brief", BACKGROUND="off", LIFETIMES="online")
    assert set(predictions.values()) == {0}


def test_a_wrong_value_is_refused(lab: Lab) -> None:
    done = lab.run("true", env={"STRATA_LIFETIMES": "perhaps"})
    assert done.returncode == 0
    assert len(done.strata_lines()) == 1
    assert "STRATA_LIFETIMES" in done.strata_lines()[0]


@pytest.mark.parametrize("threads", ["one", "many"])
def test_a_model_knows_it_beforehand(lab: Lab, tmp_path: Path, threads: str) -> None:
    done, predictions = burst(lab, tmp_path, threads, MODEL=str(SURE))
    assert done.stdout == "apart\n"
    assert predictions["model_asked"] >= 2
    assert predictions["model_hits"] + predictions["model_misses"] >= 2
    assert predictions["lasting_live"] > 0


def test_of_a_stripped_program_it_knows_nothing_and_learns(lab: Lab, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, lab.build(PROGRAM, "-pthread")], check=True)
    stats = tmp_path / "stats.json"
    env = {"STRATA_MODEL": str(SURE), "STRATA_STATS": str(stats)}
    done = lab.run(stripped, "one", env=env)
    assert (done.stdout, done.stderr) == ("apart\n", ""), done.explain()
    assert json.loads(stats.read_text())["predictions"]["model_asked"] >= 2


@pytest.mark.parametrize(
    ("options", "interval"),
    [
        ({"BACKGROUND": "off"}, 512 << 10),
        ({"SAMPLE": "2M"}, 2 << 20),
        ({"SAMPLE": "32K"}, 32 << 10),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else str(value),
)
def test_samples_are_as_rare_as_was_said(
    lab: Lab, tmp_path: Path, options: dict[str, str], interval: int
) -> None:
    burst(lab, tmp_path, "brief", MODEL=str(SURE), **options)
    sampler = json.loads((tmp_path / "stats.json").read_text())["sampler"]
    assert sampler["interval"] == interval


def test_a_model_of_another_program_costs_no_samples(lab: Lab, tmp_path: Path) -> None:
    """Nothing is predicted here, and after a while no stack is new."""
    stats = tmp_path / "stats.json"
    program = """
import time
keep, end = bytearray(9 << 20), time.monotonic() + 4
while time.monotonic() < end:
    x = [bytes(999)] * 99
"""
    env = {"STRATA_MODEL": str(SURE), "STRATA_STATS": str(stats)}
    done = lab.run("/usr/bin/python3", "-c", program, env=env)
    assert done.returncode == 0, done.explain()
    read = json.loads(stats.read_text())
    assert read["predictions"]["model_asked"] > 0
    assert read["predictions"]["bytes"] < 448 << 10, "frames took 192 KiB to the end"
    assert read["sampler"]["interval"] == 2 << 20


@pytest.mark.parametrize(("bursts", "interval"), [("1", 32 << 10), ("120", 2 << 20)])
def test_a_model_that_knows_the_program_looks_for_rare_places(
    lab: Lab, tmp_path: Path, bursts: str, interval: int
) -> None:
    """Until samples of 1 GiB have brought no new stack, however long that takes."""
    burst(lab, tmp_path, "passing", bursts, MODEL=str(SURE))
    sampler = json.loads((tmp_path / "stats.json").read_text())["sampler"]
    assert sampler["interval"] == interval


def test_a_child_of_a_process_at_rest_learns_from_the_start(lab: Lab, tmp_path: Path) -> None:
    """As a worker does whose master has waited for long."""
    burst(lab, tmp_path, "forks", "1", MODEL=str(SURE.with_name("int8.model")))
    sampler = json.loads((tmp_path / "stats.json").read_text())["sampler"]
    assert sampler["interval"] == 512 << 10


def test_a_model_is_asked_about_a_place_before_it_is_sampled(lab: Lab, tmp_path: Path) -> None:
    """33 KiB of 32 classes, which one sample finds: each is a place of its own. The program sleeps
    most of the time, so that it was often asleep while somebody looked for its samples."""
    _, predictions = burst(lab, tmp_path, "rare", "1", MODEL=str(SURE))
    assert predictions["model_asked"] >= 10


def test_a_process_at_rest_wakes_rarely(lab: Lab) -> None:
    """Also where there is no stack to ask about: large blocks have none."""
    program = "x = [bytearray(1 << 20) for _ in range(64)]; print('ready', flush=True); input()"
    env = {"STRATA_MODEL": str(SURE)}
    with lab.start("/usr/bin/python3", "-c", program, env=env, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        before = switches(process.pid)
        time.sleep(3)
        assert switches(process.pid) - before < 30


@pytest.mark.parametrize("by", ["online", "model"])
@pytest.mark.parametrize("how", ["fork", "jit", "modules"])
def test_a_program_that_changes_is_learned_anew(
    lab: Lab, tmp_path: Path, how: str, by: str
) -> None:
    """Code without unwind tables, files that come and go, and a forked child."""
    words = [how]
    if how == "modules":
        flags: tuple[list[str], ...] = ([], ["-DTURNED"])
        modules = [lab.build(HERE / "module.c", "-shared", "-fPIC", *more) for more in flags]
        words += [str(module) for module in modules]
    options = {"LIFETIMES": "online"} if by == "online" else {"MODEL": str(SURE)}
    done, predictions = burst(lab, tmp_path, *words, **options)
    assert done.stdout == "apart\n"
    # A burst leaves 600 KiB. What stays of later ones would not count if the old were still taken
    # for what lasts. A model knows no made code: its samples tell after some bursts only.
    few = how == "fork" or (how, by) == ("jit", "model")
    assert predictions["lasting_live"] > (500_000 if few else 5_000_000)


def newer(path: Path) -> None:
    data = bytearray(SURE.read_bytes())
    data[8] += 1
    path.write_bytes(data)


def damaged(path: Path) -> None:
    data = bytearray(SURE.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


BAD: dict[str, Callable[[Path], object]] = {
    "missing": Path.absolute,
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "empty": Path.touch,
    "truncated": lambda path: path.write_bytes(SURE.read_bytes()[:9000]),
    "short": lambda path: path.write_bytes(SURE.read_bytes()[:9]),
    "foreign": lambda path: path.write_bytes(Path("/bin/true").read_bytes()),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "newer": newer,
    "damaged": damaged,
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_model_gets_one_line_and_the_program_runs(lab: Lab, tmp_path: Path, how: str) -> None:
    path = tmp_path / "bad.model"
    BAD[how](path)
    done = lab.run("echo", "runs", env={"STRATA_MODEL": str(path)})
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.explain()
    assert len(done.stderr.splitlines()) == 1, done.explain()
    assert f"no model: {path}: " in done.stderr
    assert (how == "newer") == bool(
        re.search(r"version .* \(\d+; this library reads \d+\)$", done.stderr)
    )


def test_a_model_without_a_file_is_refused(lab: Lab) -> None:
    done = lab.run("true", env={"STRATA_LIFETIMES": "model"})
    assert done.returncode == 0
    assert len(done.strata_lines()) == 1
    assert "STRATA_MODEL" in done.strata_lines()[0]


def test_files_come_and_go_while_it_predicts(lab: Lab, tmp_path: Path) -> None:
    """Modules are loaded and unloaded, the process forks, and the model's file goes away."""
    model = tmp_path / "copy.model"
    model.write_bytes(SURE.read_bytes())
    program = (
        "import _ctypes, importlib, os, sys, time\n"
        f"open({str(model)!r}, 'wb').close()\n"
        "libm = [_ctypes.dlopen(name, 2) for name in ('libz.so.1', 'libm.so.6')]\n"
        "end = time.time() + 1.5\n"
        "while time.time() < end:\n"
        "    h = _ctypes.dlopen('libz.so.1', 2)\n"
        "    keep = [str(i) * 40 for i in range(20000)]\n"
        "    _ctypes.dlclose(h)\n"
        "    if os.fork() == 0:\n"
        "        keep = [str(i) * 80 for i in range(20000)]\n"
        "        os._exit(0)\n"
        "    assert os.wait()[1] == 0\n"
        "print('alive')\n"
    )
    env = {"STRATA_MODEL": str(model), "STRATA_SAMPLE": "4096", "PYTHONMALLOC": "malloc"}
    done = lab.run("/usr/bin/python3", "-c", program, env=env)
    assert (done.stdout, done.stderr) == ("alive\n", ""), done.explain()
