"""What the report advises on memory, hugepages and functions, followed: what it said is gone or
given back is measured. What names a thing to change is changed in advice_cases.c."""

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
    FINE,
    HELD,
    Report,
    figures,
    follow,
    follows,
    miss_rate,
    running,
    settings_of,
)
from blackbox import Lab, wait_until
from command import good
from strata.doctor.process import hugepages_of
from strata.report import model
from strata.report.advice import Advice, Level
from test_doctor_followed import finding
from test_report import rss

PYTHON = """
import time
kept = [[str(n), n + 0.5] for n in range(400_000)]
print("ready", flush=True)
time.sleep(600)
"""


@follows(
    "They outlive their neighbours",
    "of it is in whole pages, which go back",
    "little of it can go back to the system while they live",
    "Have the program allocate the long-lived ones first, or together",
)
def test_what_stays_is_allocated_first(lab: Lab, tmp_path: Path) -> None:
    """Named are the objects that stay, and what they keep resident goes once they come first, or
    are copied after the burst."""
    with running(lab, "pinned", env=FINE | HELD) as pid:
        time.sleep(2)  # only who has lived for a second is in nobody's way by chance
        report = Report(pid, tmp_path / "a")
        said = report["waste-stacks"]
        assert said.level is Level.LOOK
        assert "Objects from MakeSession keep" in said.text
        # What they don't keep goes back at once, as the report says.
        whole_pages, stuck, at_first = report["resident"], report["return-capacity"], report.rss
        before = rss(pid)
        assert "is in whole pages" in whole_pages.text
        follow(whole_pages)
        gone = before - rss(pid)
        assert 0.7 * whole_pages.brings <= gone <= 1.5 * whole_pages.brings, (whole_pages, gone)
        report = Report(pid, tmp_path / "b")
        before = report.rss
        assert "MakeSession" in kept_by(said)
    assert "little of it can go back" in report["resident"].text
    assert report["return-capacity"].brings <= 1.2 * said.brings, "what went back isn't counted"
    for how in (1, 2):
        with running(lab, "pinned", how, env=FINE) as pid:
            good("release", pid)
            gone = before - rss(pid)
        assert 0.7 * said.brings <= gone <= 1.5 * said.brings, (how, said, gone)
        gone += at_first - before
        assert 0.7 * stuck.brings <= gone <= 1.5 * stuck.brings, (how, stuck, gone)


def kept_by(said: Advice) -> str:
    """Who keeps most, by the command of the advice."""
    return good(*shlex.split(said.command)[1:]).splitlines()[2]


@follows("Its whole pages go back when the program rests")
def test_what_lies_on_pages_of_its_own_goes_back_unsampled(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "pinned", env=HELD | {"STRATA_SAMPLE": "0"}) as pid:
        said, before = Report(pid, tmp_path / "a")["resident"], rss(pid)
        assert "Its whole pages go back" in said.text
        follow(said)
        assert before - rss(pid) > 0.7 * said.brings


@follows("Little of it can go back to the system unless those that live lie close together")
def test_unsampled_what_went_back_is_not_promised_again(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "pinned", env=HELD | {"STRATA_SAMPLE": "0"}) as pid:
        good("release", pid)
        said, before = Report(pid, tmp_path / "a")["resident"], rss(pid)
        assert "Little of it can go back" in said.text
        good("release", pid)
        assert before - rss(pid) < 0.1 * said.brings


@follows(
    "hugepages are empty, with",
    "It goes back to the system by itself once the load",
    "These are free pages kept for the next peak",
)
def test_empty_hugepages_are_given_back(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "spike", env=HELD) as pid:
        report = Report(pid, tmp_path / "a")
        before = rss(pid)
        said = report["map"]
        assert report["resident"].command == report["fragmentation"].command == said.command
        follow(said)
        gone = before - rss(pid)
        for figure in ("resident", "fragmentation"):
            brings = report[figure].brings
            assert 0.9 * brings < gone < 1.1 * brings, (figure, brings, gone)
        assert "empty" not in Report(pid, tmp_path / "b")["map"].text


def covered(pid: int) -> float:
    return figures(pid).number("coverage") or 0.0


@follows("Their free pages go back when the program rests")
def test_what_pins_hugepages_is_allocated_earlier(lab: Lab, tmp_path: Path) -> None:
    """The free pages go back at once by the command; with the objects side by side no hugepage is
    broken up for it."""
    left = []
    for how in ((64,), (64, 1)):
        with running(lab, "lull", *how, env=FINE | HELD) as pid:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(1.2)  # only who has lived for a second is in nobody's way by chance
            said = Report(pid, tmp_path / str(how))["map"]
            before = rss(pid)
            good("release", pid)
            gone = before - rss(pid)
            left.append((rss(pid), broken(pid)))
        if how == (64,):
            assert "Objects from MakeSession pin most of them" in said.text, said
            assert 0.7 * said.brings < gone < 1.3 * said.brings, (said, gone)
        else:
            assert "MakeSession" not in said.text
    assert left[1][0] < 1.2 * left[0][0]
    assert left[1][1] < left[0][1] / 4, left


@follows("If the load returns within minutes", "# says how to keep them whole")
def test_hugepages_that_were_broken(lab: Lab, tmp_path: Path) -> None:
    """Who holds free memory for longer, keeps them."""
    soon = {f"STRATA_RELEASE_{name}_MS": "500" for name in ("SHORT", "LONG", "PEAK", "IDLE")}
    with running(lab, "lull", 288, env=soon) as pid:
        os.kill(pid, signal.SIGUSR1)
        assert wait_until(lambda: broken(pid) > 100)
        assert "strata report" in finding(pid, "coverage")["fixes"][0]
        said = Report(pid, tmp_path / "a")["coverage"]
        before = rss(pid)
    with running(lab, "lull", 288, env=soon | settings_of(said)) as pid:
        os.kill(pid, signal.SIGUSR1)
        time.sleep(5)
        assert (figures(pid).whole("page_heap", "released_total_bytes") or 0) < 10 << 20
        assert rss(pid) > 2 * before


def broken(pid: int) -> int:
    return hugepages_of(figures(pid).data).broken


@follows(
    "The process, or what started it, forbade them",
    "it, or what started it, called prctl(PR_SET_THP_DISABLE)",
)
def test_hugepages_that_the_process_forbade_itself(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "forbid", 0) as pid:
        Report(pid, tmp_path / "a")["coverage"]
        assert finding(pid, "thp-allowed")["state"] == "mend"
    with running(lab, "forbid", 1) as pid:
        assert wait_until(lambda: covered(pid) > 0.7)
        assert finding(pid, "thp-allowed")["state"] == "ok"


@follows("of the frees are by another thread")
def test_objects_that_another_thread_frees(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "hand", 0, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["lifetimes"]
        assert "100 % of the frees are by another thread" in said.text, said
        before = misses(pid)
    with running(lab, "hand", 1, env=FINE) as pid:
        assert "another thread" not in Report(pid, tmp_path / "b")["lifetimes"].text
        assert misses(pid) < before / 4


def misses(pid: int) -> float:
    """So far, of calls that the caches of CPUs or threads could not serve."""
    found = figures(pid)
    return sum(found.number("cache", f"misses_{of}") or 0 for of in ("alloc", "free"))


@follows(
    "Most of the short-lived ones come from",
    "have it use the first again",
    "of the bytes are objects of",
)
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


@follows("A machine must have room for the peak")
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


@follows("Watch for longer:")
def test_who_rests_is_watched_for_longer(lab: Lab, tmp_path: Path) -> None:
    """What it allocated at its start is no churn; its few spans are seen anew each second."""
    with running(lab, "peak", 0, env=FINE) as pid:
        report = Report(pid, tmp_path / "a")
        assert "at rest" in report["churn-stacks"].text
        seconds = int(report["return-live"].command.split()[-1])
        assert "Too few" not in Report(pid, tmp_path / "b", seconds)["return-live"].text


@follows("the opposite of Google's fleet")
def test_spans_that_a_few_objects_keep(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "remains", 0, env=FINE) as pid:
        for _ in range(20):  # the library looks at spans when it gets the CPU
            said = Report(pid, tmp_path / "a")["return-live"]
            if "the opposite of" in said.text:
                break
        assert "the opposite of" in said.text, said
        before = left_in_spans(pid)
    with running(lab, "remains", 1, env=FINE) as pid:
        assert Report(pid, tmp_path / "b")["return-live"].level is Level.FINE
        assert left_in_spans(pid) < before / 4


def left_in_spans(pid: int) -> float:
    """Free, after the last burst: between two it depends on the moment."""
    os.kill(pid, signal.SIGUSR1)
    name = Path(f"/proc/{pid}/comm")
    assert wait_until(lambda: name.read_text() == "rests\n", 30)
    return figures(pid).number("bytes", "central_free") or 0


@follows("Requests are rounded up to the next size on offer")
def test_objects_trimmed_to_a_size_on_offer(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "slack", env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["fragmentation"]
        good("release", pid)
        before = rss(pid)
    assert "rounded up to the next size on offer" in said.text
    with running(lab, "slack", 1, env=FINE) as pid:
        Report(pid, tmp_path / "b")  # as long after its growth as the other
        good("release", pid)
        gone = before - rss(pid)
    assert 0.7 * said.brings <= gone <= 1.5 * said.brings, (said, gone)


@follows("if it should not be, this is the leak")
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


@follows("The samples are too few to tell (about")
def test_a_finer_interval_tells_lifetimes(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "swing", 20, 512, env={"STRATA_SAMPLE": "2M"}) as pid:
        follow(Report(pid, tmp_path / "a")["lifetimes"])
        time.sleep(1)
        assert "too few" not in Report(pid, tmp_path / "b")["lifetimes"].text


@follows("STRATA_HUGEPAGES=off asks for none", "STRATA_HUGEPAGES=off is set")
def test_hugepages_that_were_switched_off(lab: Lab, tmp_path: Path) -> None:
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    if "[never]" in mode:
        pytest.skip("this machine has no hugepages")
    off = {"STRATA_HUGEPAGES": "off"}
    with running(lab, "slack", env=off) as pid:
        said = Report(pid, tmp_path / "a")["coverage"]
        assert covered(pid) < 0.1
        assert finding(pid, "coverage")["fixes"] == [said.command]
    assert said.command.startswith("unset STRATA_HUGEPAGES ")
    with running(lab, "slack") as pid:
        assert wait_until(lambda: covered(pid) > 0.5, 100), "or the machine has no free hugepage"


@follows("the samples explain only")
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


@follows("start it with PYTHONMALLOC=malloc")
def test_python_s_own_arenas(lab: Lab, tmp_path: Path) -> None:
    """They are none of the heap's until Python is told to take it."""
    program = tmp_path / "program.py"
    program.write_text(PYTHON)
    command = (os.path.realpath(sys.executable), program)
    with running(lab, *command, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["resident"]
    assert "not the heap's" in said.text, said
    with running(lab, *command, env={**FINE, "PYTHONMALLOC": "malloc"}) as pid:
        found = Report(pid, tmp_path / "b")
    assert "of RSS is the program's own objects" in found["resident"].text
    assert "(program.py) holds" in found["live-stacks"].text, "the program's own lines"
