"""What the report advises on objects that move, followed and measured, as in test_advice.py. What
takes swap is in test_doctor_machine.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import memory_cgroup
import pytest
from advising import CASES, Report, figures, follows, running
from blackbox import Lab, wait_until

HOT_CASES = CASES.with_name("advice_hot_cases.cpp")


@follows("No round has run yet")
def test_objects_that_nobody_moves(lab: Lab, tmp_path: Path) -> None:
    program = lab.build_linked(HOT_CASES)
    with running(lab, program, "alone", 0) as pid:
        said = Report(pid, tmp_path / "a")["hotness"]
        assert "No round has run yet" in said.text
    with running(lab, program, "alone", 1) as pid:
        assert "No round" not in Report(pid, tmp_path / "b")["hotness"].text


@follows("rounds were given up because an operation did not end")
def test_operations_that_wait(lab: Lab, tmp_path: Path) -> None:
    operations(lab, tmp_path, "waits", 0, "epochs_given_up")


@follows("and let one use fewer objects")
def test_operations_that_use_many_objects(lab: Lab, tmp_path: Path) -> None:
    operations(lab, tmp_path, "many", 1, "aborted_in_use")


def operations(lab: Lab, tmp_path: Path, name: str, checks: int, figure: str) -> None:
    program = lab.build_linked(HOT_CASES, f"-DSTRATA_HOT_CHECK={checks}")
    failed = []
    for followed in (0, 1):
        with running(lab, program, name, followed) as pid:
            assert wait_until(lambda: hotness(pid, "rounds") > 2)
            is_advised(pid, tmp_path / str(followed), "End each hot_scope", yes=not followed)
            failed.append(in_a_round(pid, figure))
    assert failed[1] < failed[0] / 4, failed


def in_a_round(pid: int, name: str, least: int = 10) -> float:
    """In the mean of the next ones: how long they take depends on the machine."""
    rounds, before = hotness(pid, "rounds"), hotness(pid, name)
    assert wait_until(lambda: hotness(pid, "rounds") >= rounds + least)
    return (hotness(pid, name) - before) / (hotness(pid, "rounds") - rounds)


def is_advised(pid: int, folder: Path, words: str, *, yes: bool) -> None:
    """In one of some reports: rounds come when the machine lets them, and some figures are those of
    the last window."""
    for _ in range(5):
        said = Report(pid, folder)["hotness"]
        if (words in said.text) == yes:
            return
    pytest.fail(f"{words}: {said}")


def gained(pid: int, name: str) -> float:
    """In a second."""
    before = hotness(pid, name)
    time.sleep(1)
    return hotness(pid, name) - before


def hotness(pid: int, name: str) -> float:
    return figures(pid).number("hotness", name) or 0


@follows("Moves find no memory")
def test_objects_that_find_no_room(lab: Lab, tmp_path: Path) -> None:
    program = lab.build_linked(HOT_CASES)
    with memory_cgroup.made("strata-advice-hot") as group:
        group.limit(100)
        join = ("/bin/sh", "-c", memory_cgroup.JOIN, group.path)
        with running(lab, *join, program, "idle", 60) as pid:
            assert wait_until(lambda: hotness(pid, "rounds") > 2)
            is_advised(pid, tmp_path / "a", "the process is near its limit", yes=True)
            before = hotness(pid, "cold_objects")
            group.limit(400)
            assert wait_until(lambda: hotness(pid, "cold_objects") > before + 10_000)
            is_advised(pid, tmp_path / "b", "Moves find", yes=False)


@follows("what is used comes back later than that")
def test_objects_that_come_back_after_their_windows(lab: Lab, tmp_path: Path) -> None:
    windows(lab, tmp_path, "turns", (1, 50), lambda pid: in_a_round(pid, "promotions"))


@follows("if it stays, make the windows longer")
def test_windows_that_take_much_of_a_core(lab: Lab, tmp_path: Path) -> None:
    windows(lab, tmp_path, "passing", (1, 1000), lambda pid: gained(pid, "collector_ns"))


def windows(
    lab: Lab, tmp_path: Path, name: str, lengths: tuple[int, int], measure: Callable[[int], float]
) -> None:
    program = lab.build_linked(HOT_CASES, "-DSTRATA_HOT_CHECK=0")
    found = []
    for length in lengths:
        with running(lab, program, name, length) as pid:
            folder = tmp_path / str(length)
            assert wait_until(lambda: hotness(pid, "rounds") > 0)
            is_advised(pid, folder, "windows longer (period_ms)", yes=length == lengths[0])
            found.append(measure(pid))
    assert found[1] < found[0] / 4, found
