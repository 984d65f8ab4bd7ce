"""What the report advises on caches and CPU time, followed and measured, as in test_advice.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from advising import HELD, Report, advice_of, figures, follow, follows, miss_rate, running
from blackbox import Lab, missing, wait_until
from command import good
from strata.report import cpu_time, model
from strata.report.advice import Level
from strata.report.advice_time import SAMPLING
from test_report import rss

TAKES_CPU = pytest.mark.skipif(
    os.environ.get("STRATA_TEST_MACHINE") != "1", reason="takes the CPU: STRATA_TEST_MACHINE=1"
)


def require_cpu_caches(pid: int) -> None:
    if "per-cpu" not in figures(pid).text("cache_mode"):
        pytest.skip("caches of threads have a bound of their own")


@follows("Let each CPU keep twice as much", "That may have been at its start alone")
def test_caches_that_miss_are_doubled(lab: Lab, tmp_path: Path) -> None:
    """Files say how often, but not when: whoever watches the process knows."""
    saved = tmp_path / "saved"
    saved.mkdir()
    env = {
        "STRATA_CPU_CACHE_BYTES": "128K",
        "STRATA_STATS": f"{saved}/stats.json",
        "STRATA_STATS_INTERVAL": "1",
    }
    with running(lab, "swing", 64, 16000, env=env) as pid:
        require_cpu_caches(pid)
        assert wait_until((saved / "stats.json").exists)
        total = advice_of("misses", model.load(saved))
        assert total is not None and total.command == f"strata report {pid} -o DIR"
        before = miss_rate(pid)
        said = Report(pid, tmp_path / "a")["misses"]
        assert "Let each CPU keep twice as much" in said.text, said
        for _ in range(5):
            if "cpu_cache_bytes" not in said.command:
                break
            follow(said)
            said = Report(pid, tmp_path / "a")["misses"]
        assert miss_rate(pid) < before / 4, (before, said)


@follows("What lies unused in them goes back with the command")
def test_what_lies_unused_in_caches_goes_back(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "quiet", 2500, env=HELD | {"STRATA_CPU_CACHE_BYTES": "32M"}) as pid:
        require_cpu_caches(pid)
        report = Report(pid, tmp_path / "a")
        said, held = report["resident"], figures(pid).whole("bytes", "cpu_cache") or 0
        assert said.text.startswith("Caches hold"), said
        good("set", pid, "release=on")
        before = rss(pid)
        follow(said)
        assert before - rss(pid) > said.brings > 0.8 * held, (said, before, rss(pid), held)
        assert miss_rate(pid) < 0.001


@follows("larger ones would cost more memory still")
def test_buffers_that_are_used_again_need_no_cache(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_CPU_CACHE_BYTES": "12M"}
    with running(lab, "swing", 6000, 0, env=env) as pid:
        require_cpu_caches(pid)
        said = Report(pid, tmp_path / "a")["misses"]
        assert "caches hold" in said.text, said
        before = figures(pid).whole("bytes", "cpu_cache") or 0
    with running(lab, "swing", 6000, 0, 1, env=env) as pid:
        assert Report(pid, tmp_path / "b")["misses"].level is Level.FINE
        assert (figures(pid).whole("bytes", "cpu_cache") or 0) < before / 4


def of_cpu_time(report: Report, tier: str = "all of the allocator") -> float:
    """Its share of the process's, by the clock."""
    rows = {row[0]: row[-1] for row in cpu_time.section(report.recording).rows}
    return 0 if rows[tier].startswith("less") else float(rows[tier].split()[0]) / 100


def watched(pid: int, folder: Path) -> Report:
    if shutil.which("perf") is None:
        missing("perf is not installed")
    return Report(pid, folder, 2, cpu=True)


@follows("Sample less often; profiles then need a longer run")
def test_rarer_samples_cost_less(lab: Lab, tmp_path: Path) -> None:
    with running(lab, "toil", 64, 4000, env={"STRATA_SAMPLE": "4K"}) as pid:
        report = watched(pid, tmp_path / "a")
        follow(report["cpu-time"])
        mended = watched(pid, tmp_path / "b")
        assert "sampling" not in mended["cpu-time"].text
        assert of_cpu_time(mended, SAMPLING) < of_cpu_time(report, SAMPLING) / 8


@TAKES_CPU
@follows("so only fewer calls make it less")
def test_objects_that_are_used_again_cost_no_time(lab: Lab, tmp_path: Path) -> None:
    kept_instead(lab, tmp_path, 1, 256)


@TAKES_CPU
@follows("Large blocks come and go: have the program keep its buffers")
def test_large_blocks_that_are_kept_cost_no_time(lab: Lab, tmp_path: Path) -> None:
    kept_instead(lab, tmp_path, 1, 300 << 10)


@TAKES_CPU
@follows("Larger caches would spare it, but they hold much memory already")
def test_buffers_that_are_kept_miss_no_cache(lab: Lab, tmp_path: Path) -> None:
    kept_instead(lab, tmp_path, 6000, 0)


def kept_instead(lab: Lab, tmp_path: Path, n: int, size: int) -> None:
    shares = []
    for followed in ((), (1,)):
        env = {"STRATA_CPU_CACHE_BYTES": "12M"}
        with running(lab, "toil", n, size, *followed, env=env) as pid:
            wanted = Level.FINE if followed else Level.LOOK
            for _ in range(5):  # how much lies in caches is told of a moment
                report = watched(pid, tmp_path / str(followed))
                if report["cpu-time"].level is wanted:
                    break
            assert report["cpu-time"].level is wanted, report["cpu-time"]
            shares.append(of_cpu_time(report))
    assert shares[1] < shares[0] / 4, shares
