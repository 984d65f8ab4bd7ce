"""The beginning and the end of a process, and what it costs when it does nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from blackbox import Lab, cases, status_kib, switches

HERE = Path(__file__).resolve().parent
ENDING = HERE / "ending_cases.c"
BY_STATUS = [case for case in cases(ENDING) if case.startswith("by_") and "pthread" not in case]


@pytest.mark.parametrize("case", BY_STATUS)
def test_exit_status_is_kept(lab: Lab, case: str) -> None:
    """However much work the background thread has left."""
    result = lab.run(lab.build(ENDING), case)
    assert result.returncode == 7, result.explain()
    assert result.stdout == result.stderr == "", result.explain()


@pytest.mark.parametrize(
    "env",
    [{"STRATA_SAMPLE": "1", "STRATA_STATS": "%s/stats"}, {"STRATA_CHECK": "on"}],
    ids=["stats", "check"],
)
def test_exit_in_a_handler(lab: Lab, tmp_path: Path, env: dict[str, str]) -> None:
    """It may have interrupted its own thread in the heap, whose locks nobody opens any more: what
    is due at exit is left out then, and one line says so."""
    lab.require_strata()
    program = lab.build(ENDING)
    env = {name: value.replace("%s", str(tmp_path)) for name, value in env.items()}
    for _ in range(12):
        result = lab.run(program, "by_exit_in_a_handler", env=env, timeout=10)
        assert result.returncode == 7, result.explain()
        lines = result.stderr.splitlines()
        assert lines == [] or (len(lines) == 1 and "signal handler" in lines[0]), result.explain()


def test_exit_does_not_wait_for_the_background_thread(lab: Lab) -> None:
    """A process that has just made 60 MiB of garbage ends about as fast as without the library."""
    program = lab.build(ENDING)
    plain: list[float] = []
    ours: list[float] = []
    # A busy machine has pauses of its own, but not every time.
    while len(ours) < 8 and min(ours, default=99) >= min(plain, default=0) + 0.5:
        plain.append(lab.run(program, "by_exit", preload=False).seconds)
        ours.append(lab.run(program, "by_exit").seconds)
    assert min(ours) < min(plain) + 0.5, f"{ours} s against {plain} s"


@pytest.mark.parametrize("case", ["by_pthread_exit_of_main", "by_pthread_exit_of_main_alone"])
def test_process_ends_with_the_last_thread_of_the_program(lab: Lab, case: str) -> None:
    lab.run(lab.build(ENDING), case).silent()


def test_idle_process_stays_asleep(lab: Lab) -> None:
    """After a burst, all threads together wake at most about once a second.

    Giving memory back may wait for the kernel, on a loaded machine more than once a tick, so the
    quietest of six stretches counts: a thread that polls has none.
    """
    woken: list[int] = []
    with lab.start(lab.build(ENDING), "burst_then_sleep", "60") as process:
        time.sleep(3)
        lab.assert_loaded(process.pid)
        while len(woken) < 6 and min(woken, default=99) > 7:
            before = switches(process.pid)
            time.sleep(5)
            woken.append(switches(process.pid) - before)
        assert process.poll() is None
    assert min(woken) <= 7, f"wake-ups in 5 s: {woken}"


@pytest.mark.parametrize(("order", "keep"), [("random", "5"), ("oldest", "5")])
def test_memory_goes_back_without_a_call(lab: Lab, order: str, keep: str) -> None:
    lab.require_strata()
    program = lab.build(HERE / "goes_back.c")
    result = lab.run(program, order, "300", keep, "10").ok()
    print(result.stdout)
    assert result.stdout.count("MiB") == 4, result.explain()


def test_release_switched_off_keeps_memory(lab: Lab) -> None:
    """The control of the test above: without release the memory stays, so that one can fail."""
    lab.require_strata()
    program = lab.build(HERE / "goes_back.c")
    result = lab.run(program, "random", "150", "5", "2", env={"STRATA_RELEASE": "off"})
    assert result.returncode == 1, result.explain()
    assert "resident < bound" in result.stderr, result.explain()


def test_start_of_a_small_program(lab: Lab) -> None:
    """/bin/true: the time is printed; the memory may exceed glibc's by 1.5 MiB."""
    launch = lab.build(HERE / "launch.c", "-static")
    preload = "-" if lab.library is None else str(lab.library)
    figures = []
    for library in ("-", preload):
        result = lab.run(launch, "40", library, "/bin/true", preload=False).ok()
        figures.append([int(figure) for figure in result.stdout.split()])
    (glibc_us, glibc_kib), (ours_us, ours_kib) = figures
    print(f"/bin/true: {ours_us} us and {ours_kib} KiB; glibc {glibc_us} us and {glibc_kib} KiB")
    assert ours_kib <= glibc_kib + 1536


def test_small_program_stays_small(lab: Lab) -> None:
    """A sleeping shell pipeline member holds little more than on glibc."""
    sizes = {}
    for preload in (False, True):
        with lab.start("sleep", "20", preload=preload) as process:
            time.sleep(1)
            sizes[preload] = status_kib(process.pid, "VmRSS")
    assert sizes[True] <= sizes[False] + 1536, sizes
