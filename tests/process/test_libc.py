"""Threads, forks, timers and identities: what glibc's own tests ask of them, with malloc at work.

All of it holds for glibc 2.36 (STRATA_LIB=none).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blackbox import Lab

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "libc_cases.c"
MODES = pytest.mark.parametrize("mode", ["auto", "thread"])
# Below the bound for a background thread, and above it.
FORKS = {"small heap": ("300", "2000"), "large heap": ("300", "70000")}
THREADS = [
    "no_call_is_a_cancellation_point",
    "cleanup_handlers_allocate",
    "thread_local_destructors_allocate",
    "threads_on_stacks_from_malloc",
    "fork_on_a_small_stack",
    "exit_on_a_small_stack",
    "signal_mask_is_kept",
    "timer_callbacks_allocate",
    "exec_from_a_thread",
    "raw_clone_children_allocate",
]
AS_ROOT = ["identity_changes_for_every_thread", "allocates_where_no_thread_starts"]


@MODES
@pytest.mark.parametrize("case", THREADS)
def test_threads_and_signals(lab: Lab, case: str, mode: str) -> None:
    lab.run(lab.build(SOURCE), case, env={"STRATA_CACHE": mode}).silent()


@pytest.mark.parametrize("case", AS_ROOT)
def test_as_root(lab: Lab, case: str) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root")
    lab.run(lab.build(SOURCE), case).silent()


def test_malloc_stats_is_no_cancellation_point(lab: Lab) -> None:
    result = lab.run(lab.build(SOURCE), "no_call_is_a_cancellation_point", "malloc_stats")
    assert result.returncode == 0, result.explain()
    assert result.stderr.strip() != "", result.explain()


@MODES
@pytest.mark.parametrize("heap", FORKS)
def test_fork_in_a_signal_handler(lab: Lab, heap: str, mode: str) -> None:
    """A deadlock shows as the time-out."""
    forks, largest = FORKS[heap]
    env = {"STRATA_CACHE": mode}
    program = lab.build(SOURCE)
    lab.run(program, "fork_in_a_handler", forks, largest, env=env, timeout=40).silent()


def test_keys_are_left_for_the_program(lab: Lab) -> None:
    """Each key that the library takes is missing to the program (docs/using.md)."""
    taken = "0" if lab.library is None else "1"
    lab.run(lab.build(SOURCE), "thread_keys_are_left", taken).silent()


@MODES
def test_libraries_with_thread_local_data(lab: Lab, mode: str) -> None:
    module = lab.build(HERE / "tls_module.c", "-shared", "-fPIC", name="libtlsmodule.so")
    env = {"STRATA_CACHE": mode}
    lab.run(lab.build(SOURCE), "libraries_with_thread_local_data", module, env=env).silent()
