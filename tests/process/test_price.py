"""STRATA_PRICE: a program that takes without end in a memory cgroup of its own lives, and gets ever
less; nothing waits where there is enough, nor in a signal handler; a fork bomb leaves room."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, Lab, missing, wait_until
from memory_cgroup import JOIN, KILLED, Cgroup, made, remove

HERE = Path(__file__).resolve().parent
BOX = 96
ON = {"STRATA_PRICE": "on"}


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    with made(f"strata-price-{os.getpid()}") as group:
        group.limit(BOX)
        yield group


@pytest.fixture(scope="module")
def grow(lab: Lab) -> Path:
    return lab.build(ROOT / "bench/programs/grow.cpp", "-O2")


def account(figures: Path) -> dict[str, Any]:
    """What the statistics, which come each second, say of the price; at first nothing."""
    with contextlib.suppress(FileNotFoundError):
        return dict(json.loads(figures.read_text())["price"])
    return {}


def test_who_takes_all_is_killed_without_the_price(lab: Lab, grow: Path, cgroup: Cgroup) -> None:
    assert cgroup.run(lab, grow, "--mode=hog").returncode in KILLED


@pytest.mark.parametrize("block", [4 << 10, 64 << 10, 1 << 20])
def test_who_takes_all_waits_instead(
    lab: Lab, grow: Path, cgroup: Cgroup, tmp_path: Path, block: int
) -> None:
    """Whatever tier the blocks come from; and it says so, once."""
    figures = tmp_path / "stats.json"
    env = {**ON, "STRATA_STATS": str(figures), "STRATA_STATS_INTERVAL": "1"}
    command = ("/bin/sh", "-c", JOIN, str(cgroup.path), grow, "--mode=hog", f"--block={block}")
    with lab.start(*command, env=env) as process:
        assert wait_until(lambda: account(figures).get("waited_ns", 0) > 10**9)
        time.sleep(2)
        assert process.poll() is None
        usage = cgroup.usage_mib()
        price = account(figures)
        process.kill()
        _, said = process.communicate()
    assert 0.85 * BOX < usage < 0.99 * BOX
    assert price["on"] is True
    assert price["waits"] > 0
    assert price["waited_ns"] > 10**9
    assert price["seconds_a_mib"] > 0
    assert price["supply_bytes"] == BOX << 20
    assert said.count("memory is scarce") == 1


@pytest.mark.parametrize(
    ("mode", "block", "option"),
    [
        pytest.param("hog", 1 << 20, {"STRATA_GUARD": "1/1"}, id="guarded"),  # beside the heap
        pytest.param("hog", 64 << 10, {"STRATA_CHECK": "on"}, id="checked"),
        pytest.param("block", 1 << 20, {}, id="realloc"),
    ],
)
def test_every_way_of_growing_waits(
    lab: Lab, grow: Path, cgroup: Cgroup, mode: str, block: int, option: dict[str, str]
) -> None:
    how = (f"--mode={mode}", f"--block={block}")
    command = ("/bin/sh", "-c", JOIN, str(cgroup.path), grow, *how)
    with lab.start(*command, env=ON | option) as process:
        assert wait_until(lambda: cgroup.usage_mib() > 0.85 * BOX or process.poll() is not None)
        time.sleep(1)
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize("kind", [(), ("shared",)])
def test_a_program_that_grows_by_reaps_alone_waits(
    lab: Lab, cgroup: Cgroup, kind: tuple[str, ...]
) -> None:
    """A shared one pays once its lock is let go."""
    hog = lab.build_linked(HERE / "price_reap.c")
    with lab.start("/bin/sh", "-c", JOIN, str(cgroup.path), hog, *kind, env=ON) as process:
        assert wait_until(lambda: cgroup.usage_mib() > 0.85 * BOX or process.poll() is not None)
        time.sleep(1)
        assert process.poll() is None
        assert 0.85 * BOX < cgroup.usage_mib() < 0.99 * BOX
        process.kill()


def test_a_limit_that_changes_while_a_thread_waits(lab: Lab, grow: Path, cgroup: Cgroup) -> None:
    """More room lets it go on; less than it holds neither ends nor hangs it."""
    command = ("/bin/sh", "-c", JOIN, str(cgroup.path), grow, "--mode=hog")
    with lab.start(*command, env=ON) as process:
        assert wait_until(lambda: cgroup.usage_mib() > 0.85 * BOX)
        time.sleep(1)
        cgroup.limit(2 * BOX)
        assert wait_until(lambda: cgroup.usage_mib() > 0.85 * 2 * BOX)
        assert process.poll() is None
        with contextlib.suppress(OSError):  # version 1 refuses less than is held
            cgroup.limit(int(cgroup.usage_mib()) + 2)
        before = cgroup.usage_mib()
        time.sleep(2)
        assert process.poll() is None
        assert cgroup.usage_mib() < before + 2
        process.kill()


def test_what_another_allocator_takes_leaves_less_for_malloc(
    lab: Lab, cgroup: Cgroup, tmp_path: Path
) -> None:
    """mmap never waits, and is no debt; malloc finds it scarce, and nobody is killed."""
    figures = tmp_path / "stats.json"
    program = lab.build(HERE / "price_other.c", "-O2", "-pthread")
    env = {**ON, "STRATA_STATS": str(figures)}
    result = cgroup.run(lab, program, str(BOX * 92 // 100), "3", env=env)
    assert result.returncode == 0, result.explain()
    price = json.loads(figures.read_text())["price"]
    assert price["waits"] > 0
    assert price["debt_bytes"] < 4 << 20


def test_nothing_costs_where_there_is_enough(
    lab: Lab, grow: Path, cgroup: Cgroup, tmp_path: Path
) -> None:
    figures = tmp_path / "stats.json"
    env = {**ON, "STRATA_STATS": str(figures)}
    half = ("--mode=batch", f"--mib={BOX // 2}", "--seconds=0.2")
    cgroup.run(lab, grow, *half, env=env).ok()
    price = json.loads(figures.read_text())["price"]
    assert (price["waits"], price["waited_ns"], price["seconds_a_mib"]) == (0, 0, 0)


def test_a_job_that_needs_its_memory_once_finishes(lab: Lab, grow: Path, cgroup: Cgroup) -> None:
    most = ("--mode=batch", f"--mib={BOX * 92 // 100}", "--seconds=0.1")
    result = cgroup.run(lab, grow, *most, env=ON)
    assert result.returncode == 0, result.explain()


def test_no_signal_handler_waits(lab: Lab, cgroup: Cgroup) -> None:
    """It may have interrupted what others wait for; the code that it interrupted pays later."""
    program = lab.build(HERE / "price_cases.c", "-O2")
    result = cgroup.run(lab, program, env=ON)
    assert result.returncode == 0, result.explain()


def test_a_handler_that_forks_waits_for_no_look(lab: Lab, cgroup: Cgroup) -> None:
    program = lab.build(HERE / "price_fork.c", "-O2")
    result = cgroup.run(lab, program, env=ON)
    assert result.returncode == 0, result.explain()


@contextlib.contextmanager
def process_ids(most: int) -> Iterator[Path]:
    for parent in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        group = Path(parent) / f"strata-price-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / "pids.max").exists():
                (group / "pids.max").write_text(str(most))
                break
            group.rmdir()
    else:
        missing("no pids cgroup can be made here")
    try:
        yield group
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.02)
        remove(group)


PRICED_LATE = """
import ctypes, os, threading
for _ in range(17):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
assert ctypes.CDLL(None).strata_set(b"price", b"on") == 0
for _ in range(2):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_the_first_fork_is_free_where_the_price_comes_late(lab: Lab, tmp_path: Path) -> None:
    """A server that has run for days has not just been forked; its second fork in a row waits."""
    figures = tmp_path / "stats.json"
    with process_ids(23) as group:
        command = ("/bin/sh", "-c", JOIN, group, sys.executable, "-c", PRICED_LATE)
        lab.run(*command, env={"STRATA_STATS": str(figures), "STRATA_WEIGHT": "10000"}).ok()
    assert json.loads(figures.read_text())["price"]["fork_waits"] == 1


AGAIN = '#!/bin/sh\n"$0" & "$0" & wait\n'


@pytest.mark.parametrize(("priced", "of"), [(False, "forks"), (True, "forks"), (True, "programs")])
def test_a_fork_bomb_leaves_process_ids(
    lab: Lab, grow: Path, tmp_path: Path, priced: bool, of: str
) -> None:
    most = 60
    script = tmp_path / "again"
    script.write_text(AGAIN)
    script.chmod(0o755)
    bomb = (grow, "--mode=bomb") if of == "forks" else (script,)
    with process_ids(most) as group:
        command = ("/bin/sh", "-c", JOIN, str(group), *bomb)

        def running() -> int:
            return int((group / "pids.current").read_text())

        with lab.start(*command, env=ON if priced else {}, stderr=subprocess.DEVNULL):
            assert wait_until(lambda: running() > 0.7 * most if priced else running() == most)
            until = time.monotonic() + 2
            while priced and time.monotonic() < until:
                assert 0.7 * most < running() < most
                time.sleep(0.02)
