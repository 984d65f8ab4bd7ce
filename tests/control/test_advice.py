"""What the report advises, followed: what it said is gone or given back is measured. `strata
release` is in test_report.py; what only names a thing to change is followed in advice_cases.c."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from advising import (
    CASES,
    FINE,
    HELD,
    Report,
    figures,
    follow,
    miss_rate,
    running,
    settings_of,
)
from blackbox import Lab, wait_until
from command import good
from strata.report import advice_time, model
from strata.report.advice import Level
from strata.report.advice_memory import Caches
from test_report import rss

HOT_CASES = CASES.with_name("advice_hot_cases.cpp")
PYTHON = """
import time
kept = [[str(n), n + 0.5] for n in range(400_000)]
print("ready", flush=True)
time.sleep(600)
"""


def test_what_stays_is_allocated_first(lab: Lab, tmp_path: Path) -> None:
    """Named are the objects that stay, and what they keep resident goes once they come first."""
    with running(lab, "pinned", env=FINE | HELD) as pid:
        time.sleep(2)  # only who has lived for a second is in nobody's way by chance
        report = Report(pid, tmp_path / "a")
        said = report["waste-stacks"]
        assert said.level is Level.LOOK
        assert "Objects from MakeSession keep" in said.text
        # What they don't keep goes back at once, as the report says.
        whole_pages, before = report["resident"], rss(pid)
        assert "is in whole pages" in whole_pages.text
        follow(whole_pages)
        gone = before - rss(pid)
        assert 0.7 * whole_pages.brings <= gone <= 1.5 * whole_pages.brings, (whole_pages, gone)
        report = Report(pid, tmp_path / "b")
        before = report.rss
    assert "little of it can go back" in report["resident"].text
    stuck = report["return-capacity"].brings
    assert stuck <= 1.2 * said.brings, "what went back isn't counted again"
    with running(lab, "pinned", 1, env=FINE) as pid:
        good("release", pid)
        gone = before - rss(pid)
    assert 0.7 * said.brings <= gone <= 1.5 * said.brings, (said, gone)


def test_what_lies_on_pages_of_its_own_goes_back_unsampled(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "pinned", env=HELD | {"STRATA_SAMPLE": "0"}) as pid:
        said, before = Report(pid, tmp_path / "a")["resident"], rss(pid)
        assert "Its whole pages go back" in said.text
        follow(said)
        assert before - rss(pid) > 0.3 * said.brings


def test_empty_hugepages_are_given_back(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "spike", env=HELD) as pid:
        report = Report(pid, tmp_path / "a")
        before = rss(pid)
        said = report["map"]
        assert "hugepages are empty" in said.text
        follow(said)
        gone = before - rss(pid)
        assert gone > 0.9 * (report["resident"].brings), (said, gone)
        assert "empty" not in Report(pid, tmp_path / "b")["map"].text


def test_hugepages_that_were_broken(lab: Lab, tmp_path: Path) -> None:
    """Who holds free memory for longer, keeps them."""
    soon = {f"STRATA_RELEASE_{name}_MS": "500" for name in ("SHORT", "LONG", "PEAK", "IDLE")}

    def covered(pid: int) -> float:
        return figures(pid).number("coverage") or 0.0

    def begin(pid: int) -> None:
        """It may have begun on small pages: the kernel is slow where it is busy."""
        assert wait_until(lambda: covered(pid) > 0.7, 120), "or the machine has no free hugepage"
        os.kill(pid, signal.SIGUSR1)

    with running(lab, "lull", env=soon) as pid:
        begin(pid)
        assert wait_until(lambda: covered(pid) < 0.2)
        said = Report(pid, tmp_path / "a")["coverage"]
        assert "were broken up to give memory back" in said.text, said
        before = rss(pid)
    held = settings_of(said)
    with running(lab, "lull", env=soon | held) as pid:
        begin(pid)
        time.sleep(5)
        assert covered(pid) > 0.7
        assert rss(pid) > 2 * before


def test_hugepages_that_the_process_forbade_itself(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "forbid", 0) as pid:
        said = Report(pid, tmp_path / "a")["coverage"]
        assert "prctl(PR_SET_THP_DISABLE)" in said.text, said
    with running(lab, "forbid", 1) as pid:
        assert wait_until(lambda: (figures(pid).number("coverage") or 0.0) > 0.7)


def test_objects_that_another_thread_frees(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "hand", 0, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["lifetimes"]
        assert "100 % of the frees are by another thread" in said.text, said
    with running(lab, "hand", 1, env=FINE) as pid:
        assert "another thread" not in Report(pid, tmp_path / "b")["lifetimes"].text


def test_objects_that_are_used_again(lab: Lab, tmp_path: Path) -> None:
    """Three figures name the place; nothing is left of it once its object is kept."""
    with running(lab, "scratch", 0, 2000) as pid:
        report = Report(pid, tmp_path / "a")
        assert "Most of the short-lived ones come from MakeScratch" in report["lifetimes"].text
        assert report["churn-stacks"].text.startswith("MakeScratch allocates")
        assert "mostly from MakeScratch" in report["sizes"].text
        assert report.get("peak-stacks") is None or "MakeScratch" not in report["peak-stacks"].text
    with running(lab, "scratch", 1, 2000, env=FINE) as pid:
        report = Report(pid, tmp_path / "b")
        lives = report.get("lifetimes")
        assert lives is None or "MakeScratch" not in lives.text
        assert report["churn-stacks"].level is Level.FINE
        assert miss_rate(pid) == 0


def test_a_peak_that_need_not_be(lab: Lab, tmp_path: Path) -> None:
    def highest(pid: int) -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(next(line for line in status.splitlines() if "VmHWM" in line).split()[1]) << 10

    with running(lab, "peak", 0, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["peak-stacks"]
        assert said.text.startswith("LoadTable held"), said
        before = highest(pid)
    with running(lab, "peak", 1, env=FINE) as pid:
        assert Report(pid, tmp_path / "b").get("peak-stacks") is None
        assert highest(pid) < before - (50 << 20)


def test_nothing_is_advised_to_who_rests(lab: Lab, tmp_path: Path) -> None:
    """What it allocated at its start is no churn."""
    with running(lab, "peak", 0, env=FINE) as pid:
        assert "at rest" in Report(pid, tmp_path / "a")["churn-stacks"].text


def test_objects_trimmed_to_a_size_on_offer(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "slack", env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["fragmentation"]
        good("release", pid)
        before = rss(pid)
    assert "rounded up to the next size on offer" in said.text
    with running(lab, "slack", 1, env=FINE) as pid:
        good("release", pid)
        gone = before - rss(pid)
    assert 0.7 * said.brings <= gone <= 1.5 * said.brings, (said, gone)


def test_a_leak_is_what_grew(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "leak", env=FINE) as pid:
        said = Report(pid, tmp_path / "OLD")["live-stacks"]
        assert "if it should not be, this is the leak" in said.text
        assert said.text.startswith("LoseRecord")
        again, compare = said.command.replace("NEW", f"{tmp_path}/NEW").split("; ")
        follow(replace(said, command=f"{again} --seconds 1"))
    compare = compare.replace("OLD/", f"{tmp_path}/OLD/")
    first = good(*shlex.split(compare)[1:]).splitlines()[2]
    assert first.lstrip().startswith("+") and "LoseRecord" in first
    with running(lab, "leak", 1, env=FINE) as pid:
        mended = Report(pid, tmp_path / "mended").get("live-stacks")
        assert mended is None or "leak" not in mended.text


def test_caches_that_miss_are_doubled(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "swing", 64, 16000, env={"STRATA_CPU_CACHE_BYTES": "128K"}) as pid:
        if "per-cpu" not in figures(pid).text("cache_mode"):
            pytest.skip("caches of threads have a bound of their own")
        before = miss_rate(pid)
        said = Report(pid, tmp_path / "a")["misses"]
        assert "Let each CPU keep twice as much" in said.text, said
        for _ in range(5):
            if "cpu_cache_bytes" not in said.command:
                break
            follow(said)
            said = Report(pid, tmp_path / "a")["misses"]
        assert miss_rate(pid) < before / 4, (before, said)


def test_a_finer_interval_tells_lifetimes(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "swing", 20, 512, env={"STRATA_SAMPLE": "1G"}) as pid:
        said = Report(pid, tmp_path / "a").get("lifetimes")
        if said is None:  # not one sample
            good("set", pid, "sample=64K")
        else:
            assert "too few to tell" in said.text
            follow(said)
        time.sleep(1)
        assert "too few" not in Report(pid, tmp_path / "b")["lifetimes"].text


def test_rarer_samples_cost_less(lab: Lab) -> None:
    """The figure takes perf, which not every machine has: the rule's command does not."""
    ticks = {advice_time.SAMPLING: 500, advice_time.FRONT: 500}
    with running(lab, "swing", 20, 512, env={"STRATA_SAMPLE": "16K"}) as pid:
        said = advice_time.cpu_time(ticks, 2000, Caches(), str(pid))

        def rate() -> float:
            counts = []
            for _ in range(2):
                found = figures(pid)
                served = found.number("cache", "hits") or 0.0
                counts.append((found.number("sampler", "samples") or 0.0, served))
                time.sleep(0.5)
            return (counts[1][0] - counts[0][0]) / max(1.0, counts[1][1] - counts[0][1])

        before = rate()
        assert before > 0
        follow(said)
        assert rate() < before / 50


def test_hugepages_that_were_switched_off(lab: Lab, tmp_path: Path) -> None:
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    if "[never]" in mode:
        pytest.skip("this machine has no hugepages")
    off = {"STRATA_HUGEPAGES": "off"}
    with running(lab, "slack", env=off) as pid:
        said = Report(pid, tmp_path / "a")["coverage"]
        assert (figures(pid).number("coverage") or 0.0) < 0.1
    assert said.command.startswith("unset STRATA_HUGEPAGES ")
    with running(lab, "slack") as pid:
        Report(pid, tmp_path / "b")
        grown = wait_until(lambda: (figures(pid).number("coverage") or 0.0) > 0.5, 100)
        assert grown, "or the machine has no free hugepage"


def test_finer_samples_say_whose_the_waste_is(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "pinned", env={"STRATA_SAMPLE": "64M"}) as pid:
        time.sleep(2)
        said = Report(pid, tmp_path / "a")["waste-stacks"]
    assert "the samples explain only" in said.text
    with running(lab, "pinned", env=settings_of(said)) as pid:
        time.sleep(2)
        assert "MakeSession" in Report(pid, tmp_path / "b")["waste-stacks"].text


def test_waste_is_no_more_than_what_is_free(lab: Lab, tmp_path: Path) -> None:
    """Of a handful of samples, each of which stands for thousands of objects, too."""
    for interval in ("8M", "2M", "256K"):
        with running(lab, "pinned", env={"STRATA_SAMPLE": interval}) as pid:
            time.sleep(1.5)
            Report(pid, tmp_path / interval)
        recording = model.load(tmp_path / interval)
        waste, last = recording.profiles["fragmentation"], recording.last
        assert last is not None
        free = last.stats.whole("bytes", "free_resident") or 0
        assert waste.total("wasted_space") <= 1.02 * free + (1 << 20)


def test_python_s_own_arenas(lab: Lab, tmp_path: Path) -> None:
    """They are none of the heap's until Python is told to take it."""
    command = (os.path.realpath(sys.executable), "-c", PYTHON)
    with running(lab, *command, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["resident"]
    assert "not the heap's" in said.text, said
    with running(lab, *command, env={**FINE, "PYTHONMALLOC": "malloc"}) as pid:
        found = Report(pid, tmp_path / "b")
    assert "of RSS is the program's own objects" in found["resident"].text
    assert "(<string>) holds" in found["live-stacks"].text, "the program's own lines"


def test_objects_that_nobody_moves(lab: Lab, tmp_path: Path) -> None:
    program = lab.build_linked(HOT_CASES)
    with running(lab, program, "alone", 0) as pid:
        said = Report(pid, tmp_path / "a")["hotness"]
        assert "No round has run yet" in said.text
    with running(lab, program, "alone", 1) as pid:
        assert "No round" not in Report(pid, tmp_path / "b")["hotness"].text


@pytest.mark.parametrize(
    ("name", "checks", "why"),
    [
        ("waits", 0, "an operation did not end within 0.1 s"),
        ("many", 1, "let one use fewer objects"),
    ],
)
def test_operations_that_wait(lab: Lab, tmp_path: Path, name: str, checks: int, why: str) -> None:
    program = lab.build_linked(HOT_CASES, f"-DSTRATA_HOT_CHECK={checks}")
    with running(lab, program, name, 0) as pid:
        said = Report(pid, tmp_path / "a")["hotness"]
        assert why in said.text, said
    with running(lab, program, name, 1) as pid:
        said = Report(pid, tmp_path / "b")["hotness"]
        assert why not in said.text, said
