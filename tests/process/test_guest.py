"""The library's thread is a guest: it keeps nothing that the program gives up, and is in no way."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from blackbox import Lab, Result

SOURCE = Path(__file__).resolve().parent / "guest_cases.c"
BEHIND = SOURCE.with_name("behind_libc.c")
TOOL = SOURCE.with_name("thread_tool.c")
SILENT = [
    "small_process_has_no_thread",
    "thread_has_no_privileges",
    "thread_holds_nothing_that_leads_anywhere",
    "thread_runs_where_the_main_thread_does",
    "namespaces_can_be_left",
    "namespaces_can_be_left_beside_moving_objects",
    "another_namespace_can_be_entered",
    "thread_is_gone_before_new_privileges_are",
    "a_refused_filter_confines_nobody",
    "thread_follows_what_is_done_unseen",
    "a_child_that_nobody_sees_made_has_its_own",
    "a_child_of_a_vfork_childs_has_its_own",
    "a_tools_pthread_create_is_not_called",
    "memory_goes_back_by_the_programs_calls",
]
AS_ROOT = ["identity_is_changed_by_the_system_call", "identity_is_given_up_in_every_way"]
ENDINGS = {
    "main_leaves_beside_moving_objects": 0,
    "main_leaves_by_the_bare_call": 7,
    "main_leaves_two_threads_by_the_bare_call": 7,
    "main_is_killed_alone": -31,  # SIGSYS
    "main_leaves_by_pthread_exit_with_another_there": 7,
}


def run(lab: Lab, case: str, timeout: float = 60) -> Result:
    lab.require_strata()
    return lab.run(lab.build(SOURCE, "-ldl"), case, timeout=timeout)


def test_the_thread_starts_beside_large_thread_local_variables(lab: Lab) -> None:
    lab.require_strata()
    program = lab.build(SOURCE, "-ldl", "-DTHREAD_LOCAL_BYTES=3000000", name="guest_large")
    lab.run(program, "thread_starts_beside_thread_local_variables").silent()


def test_a_tool_behind_the_library_sees_no_thread_of_its(lab: Lab) -> None:
    library = lab.require_strata()
    tool = lab.build(TOOL, "-shared", "-fPIC", "-ldl", name="thread_tool.so")
    program = lab.build(SOURCE, "-ldl")
    preloads = {"LD_PRELOAD": f"{library} {tool}"}
    lab.run(program, "a_tools_pthread_create_is_not_called", env=preloads).silent()


@pytest.mark.parametrize("case", SILENT)
def test_guest(lab: Lab, case: str) -> None:
    run(lab, case).silent()


@pytest.mark.parametrize("case", AS_ROOT)
def test_guest_of_root(lab: Lab, case: str) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root")
    run(lab, case).silent()


def test_the_profile_signal_forgets_a_thread_that_is_gone(lab: Lab, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root")
    lab.require_strata()
    program = lab.build(SOURCE, "-ldl")
    env = {"STRATA_PROFILE_SIGNAL": "12", "STRATA_PROFILE": f"heap:{tmp_path}/profile"}
    lab.run(program, "a_thread_with_its_number_is_left_alone", env=env).silent()


def test_identity_is_given_up_while_nobody_reads_the_statistics(lab: Lab, tmp_path: Path) -> None:
    """The library's thread is held up, and has nothing by which it could follow."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    lab.require_strata()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(end, bytes(4096)):
            pass
    env = {"STRATA_STATS": str(pipe), "STRATA_STATS_INTERVAL": "1"}
    program = lab.build(SOURCE, "-ldl")
    result = lab.run(program, "identity_is_given_up_while_nobody_reads", env=env)
    os.close(end)
    assert result.returncode == 0, result.explain()


def test_identity_is_given_up_behind_libc(lab: Lab) -> None:
    """As after dlopen: the library does not see what the program gives up."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    library = lab.require_strata()
    lab.run(lab.build(BEHIND, "-ldl"), "identity_is_given_up", library, preload=False).silent()


@pytest.mark.parametrize("case", ENDINGS)
def test_process_ends_with_its_last_thread(lab: Lab, case: str) -> None:
    """A process that only the library's thread keeps alive shows as the time-out."""
    result = run(lab, case, timeout=20)
    assert result.returncode == ENDINGS[case], result.explain()
    assert result.stderr == "", result.explain()
