"""What the report advises on objects, samples and what is not the heap's, followed and measured, as
in test_advice.py. Also: loads that come back, where nothing is advised."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from advising import FINE, HELD, Report, figures, follows, running, settings_of
from blackbox import Lab, wait_until
from command import good
from strata.report.advice import Level
from test_report import rss

MIB = 1 << 20


def test_free_pages_that_are_taken_again_are_left(lab: Lab, tmp_path: Path) -> None:
    """Whoever gave them back would have them again a second later."""
    with running(lab, "tide", env=HELD) as pid:
        for _ in range(20):  # a report that ends at low tide
            report = Report(pid, tmp_path / "a", 3)
            if "takes again" in report["fragmentation"].text:
                break
        else:
            pytest.fail("never at low tide")
        said = report["fragmentation"]
        assert (said.level, said.command) == (Level.FINE, ""), said
        assert "strata release" not in report["resident"].command
        before = rss(pid)
        good("release", pid)
        assert wait_until(lambda: rss(pid) > 0.9 * before)


@follows("To see what the rest is:")
def test_what_the_program_maps_by_itself(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "mapped") as pid:
        said = Report(pid, tmp_path / "a")["resident"]
        assert "is not the heap's" in said.text, said
        assert said.command.startswith("sudo pmap ")
        shown = subprocess.run(
            ["sh", "-c", said.command.removeprefix("sudo ")],
            check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        sums = [int(line.split()[2]) for line in shown if line.split()[0] != "total"]
        assert sums[0] >= 96 << 10, shown
        assert "[ anon ]" in "".join(shown[:2])


@follows("or allocate them by the array")
def test_tiny_objects_are_allocated_by_the_array(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "tiny") as pid:
        spent = cpu_time(pid)
        said = Report(pid, tmp_path / "a")["sizes"]
        assert "allocate them by the array" in said.text, said
    with running(lab, "tiny", 1) as pid:
        assert cpu_time(pid) < 0.8 * spent
        assert "by the array" not in Report(pid, tmp_path / "b")["sizes"].text


def cpu_time(pid: int) -> int:
    """Of its first thread, in ns."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def test_a_field_less_in_the_one_type(lab: Lab, tmp_path: Path) -> None:
    # On small pages: the rest of one hugepage is a tenth of the difference.
    env = FINE | {"STRATA_HUGEPAGES": "off"}
    with running(lab, "fields", env=env) as pid:
        said = Report(pid, tmp_path / "a")["sizes"]
        assert "of 80 B, mostly from MakeRecord: a field less" in said.text, said
        before = rss(pid)
    with running(lab, "fields", 1, env=env) as pid:
        assert before - rss(pid) > 0.9 * 600000 * 16


@follows("where they come and go, have the program keep the buffer")
def test_large_buffers_are_kept(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "frames", 0, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["sizes"]
        assert "keep the buffer and use it again" in said.text, said
        before = samples(pid)
        assert wait_until(lambda: samples(pid) > before + 50)
    with running(lab, "frames", 1, env=FINE) as pid:
        report = Report(pid, tmp_path / "b", 1)
        assert report["churn-stacks"].level is Level.FINE
        before = samples(pid)
        time.sleep(1)
        assert samples(pid) == before


def samples(pid: int) -> float:
    """Each of these buffers is one."""
    return figures(pid).number("sampler", "samples") or 0.0


@follows("The samples are too few to say who holds most")
def test_finer_samples_say_who_holds_memory(lab: Lab, tmp_path: Path) -> None:
    finer_samples(lab, tmp_path, "live-stacks", ("leak",), "LoseRecord")


@follows("Too few samples of the peak to say what made it")
def test_finer_samples_say_what_made_the_peak(lab: Lab, tmp_path: Path) -> None:
    finer_samples(lab, tmp_path, "peak-stacks", ("peak", 0), "LoadTable")


def finer_samples(
    lab: Lab, tmp_path: Path, name: str, program: tuple[str | int, ...], site: str
) -> None:
    with running(lab, *program, env={"STRATA_SAMPLE": "32M"}) as pid:
        said = Report(pid, tmp_path / "a").get(name)
        if said is None or "oo few" not in said.text:
            pytest.skip("the few samples fell so that they tell enough")
    with running(lab, *program, env=settings_of(said)) as pid:
        named = Report(pid, tmp_path / "b")[name].text
    assert named.startswith(site), named


@follows("To make the process smaller, start there.")
def test_where_to_start_to_make_it_smaller(lab: Lab, tmp_path: Path) -> None:
    """What the function holds is what the process is smaller by without it."""
    with running(lab, "swing", 64, 16000, env=FINE) as pid:
        said = Report(pid, tmp_path / "a")["live-stacks"]
        assert said.text.startswith("Swing holds"), said
        before = rss(pid)
    with running(lab, "swing", 64, 16000, 1, 1, env=FINE) as pid:
        gone = before - rss(pid)
    assert 0.7 * said.brings <= gone <= 1.3 * said.brings, (said, gone)
