"""Threads that come and go, thousands alive at once, hand-over between threads, signals."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from blackbox import Lab

HERE = Path(__file__).resolve().parent
THREADS = HERE / "thread_cases.c"
SIGNALS = HERE / "signal_storm.c"
STORM_MILLISECONDS = 3000
CASES = [
    "detached",
    "key_destructors_allocate",
    "key_zero_is_the_programs",
    "hand_over",
    "cancelled",
]
MODES = pytest.mark.parametrize("mode", ["auto", "thread"])


@MODES
def test_threads_that_exit_with_full_caches(lab: Lab, mode: str) -> None:
    lab.run(lab.build(THREADS), "come_and_go", "10000", env={"STRATA_CACHE": mode}).silent()


@MODES
def test_ten_thousand_threads_alive(lab: Lab, mode: str) -> None:
    lab.run(lab.build(THREADS), "many_alive", "10000", env={"STRATA_CACHE": mode}).silent()


@MODES
@pytest.mark.parametrize("case", CASES)
def test_threads(lab: Lab, case: str, mode: str) -> None:
    lab.run(lab.build(THREADS), case, env={"STRATA_CACHE": mode}).silent()


@MODES
def test_signal_storm(lab: Lab, mode: str) -> None:
    milliseconds = str(STORM_MILLISECONDS)
    lab.run(lab.build(SIGNALS), "storm", milliseconds, env={"STRATA_CACHE": mode}).silent()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="steps by x86's trap flag")
def test_handler_allocates_at_any_instruction(lab: Lab) -> None:
    lab.run(lab.build(SIGNALS), "handler_allocates", env={"STRATA_SAMPLE": "1024"}).silent()


def test_library_threads_take_no_signals(lab: Lab) -> None:
    lab.run(lab.build(SIGNALS), "library_threads_block_signals").silent()
