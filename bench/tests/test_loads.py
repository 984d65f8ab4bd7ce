"""The four loads run to their end when they are quick, and their part of the page says what was
measured. Nothing here asserts speed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blackbox import ROOT, need
from strata import stats
from strata_bench import execute, lifetimes_group, loads, loads_table
from strata_bench.allocators import GLIBC, Allocator
from strata_bench.groups import turns
from strata_bench.plan import Kind
from strata_bench.results import Results, Run

PROGRAMS = ROOT / "build" / "bench"
PLAIN = Allocator("glibc", "", GLIBC)
CASES = {work.case.program: work.case for work in loads_table.WORKS}


def prepared(load: str) -> None:
    """Skips with the reason where the load cannot run."""
    if load == loads.REDIS:
        need("redis-server")
    if load not in loads.SCRIPTS:
        if shutil.which("pkg-config") is None:
            pytest.skip("pkg-config is not installed")
        subprocess.run([str(ROOT / "bench" / "build.sh"), str(PROGRAMS), load], check=True)
    if why := loads.lacking(load, PROGRAMS):
        pytest.skip(f"{load}: {why}")


@pytest.mark.parametrize("load", CASES)
def test_a_quick_load_works_and_is_watched(load: str) -> None:
    prepared(load)
    fields = loads.measure(CASES[load], PLAIN, PROGRAMS, quick=True, counts_live=False)
    assert fields["program"] == load
    assert int(fields["work"]) > 0
    assert float(fields["per_cpu_s"]) > 0
    mean, peak = float(fields["rss_mean_kib"]), float(fields["rss_peak_kib"])
    assert 1024 < float(fields["anonymous_mean_kib"]) <= mean <= peak
    assert 1024 < float(fields["rss_rest_kib"]) <= peak


def test_a_load_that_fails_says_so(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.exit('no luck today')"]
    with pytest.raises(loads.LoadError, match="exit 1 no luck today"):
        loads.watch(words, {}, 5, loads.memory_of, 0.05)
    slow = [sys.executable, "-c", "import time; time.sleep(9)"]
    with pytest.raises(loads.LoadError, match="no result within"):
        loads.watch(slow, {}, 0.2, loads.memory_of, 0.05)
    assert "libvips-dev" in loads.lacking("images", tmp_path)


def test_a_load_that_is_stopped_takes_its_server_along() -> None:
    need("redis-server")
    words = loads.command(loads.REDIS, PROGRAMS, ("--quick=1", "--rest=60"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().removeprefix("pid="))
        assert Path(f"/proc/{pid}").exists()
        assert "phase=rest\n" in iter(process.stdout.readline, "")
        process.terminate()
    assert process.returncode == 128 + 15
    assert not Path(f"/proc/{pid}").exists()


def test_the_phases_decide_what_a_reading_counts_for() -> None:
    watched = loads.Watched()
    phases = ("warm-up", "load", "load", "load", "burst", "rest", "rest")
    for phase, value in zip(phases, (1000, 9, 10, 11, 30, 5, 7), strict=True):
        watched.line(f"phase={phase}")
        watched.readings.append(loads.Reading(phase, {"VmRSS": value}))
    assert watched.mean("VmRSS") == 20, "a phase that takes longer counts for no more"
    assert watched.rested("VmRSS") == 6
    assert watched.peak("VmRSS") == 1000


def test_only_the_server_of_redis_gets_the_allocator() -> None:
    strata = Allocator("strata", "", Path("/lib/libstrata.so"), {"STRATA_LIFETIMES": "online"})
    options, environment = loads.environment_for(loads.REDIS, strata)
    assert "LD_PRELOAD" not in environment
    assert "--server-env=LD_PRELOAD=/lib/libstrata.so" in options
    assert "--server-env=STRATA_LIFETIMES=online" in options
    options, environment = loads.environment_for("pipeline", strata)
    assert options == ()
    assert environment["STRATA_LIFETIMES"] == "online"


def results() -> Results:
    found = Results()
    rates = {"strata": (100, 100), "online": (99, 101), "model": (90, 91), "glibc": (80,)}
    held = {"strata": 3072, "online": 2048, "model": 1536, "glibc": 4096}
    for name, values in rates.items():
        for number, rate in enumerate(values, 1):
            fields = {
                "per_cpu_s": str(rate),
                "per_s": str(rate),
                **{f"rss_{key}_kib": "8192" for key in ("mean", "peak", "rest")},
                **{f"anonymous_{key}_kib": str(held[name]) for key in ("mean", "rest")},
            }
            if (name, number) == ("strata", 1):
                fields |= {"live_mean_kib": "1024", "live_rest_kib": "1024"}
                fields |= {"rounded_mean_kib": "512", "rounded_rest_kib": "1024"}
                fields |= {"beyond_mean_kib": "1536", "beyond_rest_kib": "1024"}
            if (name, number) == ("model", 1):
                fields |= {"beyond_mean_kib": "1024", "beyond_rest_kib": "2048"}
            found.add(Run("redis", name, number, fields))
    return found


def test_the_section_says_what_was_held_and_judges_the_throughput() -> None:
    text = "\n".join(loads_table.section(results(), Path()))
    assert "| redis | strata | 100 | 100 | 8.0 | 8.0 | 8.0 | 2.0 | 2.0 |" in text
    assert "| redis | online | 1.000 (0.990 to 1.010) |" in text
    assert "| 1.0 (-50 %) | 1.0 (-50 %) |" in text
    assert "| 1.5 (-25 %) | 3.0 (+50 %) |" in text, "read at once with what lived"
    assert "| redis | glibc | 0.800 |" in text
    assert "| 3.0 (+50 %) |" in text
    assert "redis, online: work / CPU s 1.000 (0.990 to 1.010) × strata" in text
    assert "asked for ≥ 0.98: met." in text
    assert "redis, model: work / CPU s 0.905 (0.900 to 0.910) × strata" in text
    assert "asked for ≥ 0.98: missed." in text
    assert "redis, model: fragmentation -25 % against strata's, asked for ≤ -73 %: missed." in text
    assert "images" not in text.split("| load |")[1]


def test_what_is_held_is_judged_by_what_the_paper_spared() -> None:
    found = results()
    beyond = {"beyond_mean_kib": "30", "beyond_rest_kib": "30"}
    found.add(Run("redis", "model", 2, beyond))
    found.add(Run("redis", "model", 3, beyond))  # with 512, of 2048
    text = "\n".join(loads_table.section(found, Path()))
    assert "redis, model: fragmentation -74 % against strata's, asked for ≤ -73 %: met." in text


def test_statistics_are_read_in_each_round_and_the_median_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beyond = iter((900, 100, 200))

    def measure(*_: object, counts_live: bool, **__: object) -> dict[str, str]:
        return (
            {"beyond_mean_kib": str(next(beyond)), "rounded_mean_kib": "50"} if counts_live else {}
        )

    monkeypatch.setattr(loads, "measure", measure)
    strata = Allocator("strata", "", Path("/lib/libstrata.so"))
    found = Results()
    for number in (1, 2, 3):
        found.add(execute.run_step((CASES[loads.REDIS], strata, number), PROGRAMS, quick=True))
        found.add(execute.run_step((CASES[loads.REDIS], PLAIN, number), PROGRAMS, quick=True))
    assert len(found.values("redis", "strata", "beyond_mean_kib")) == 3
    assert found.values("redis", "glibc", "beyond_mean_kib") == {}
    assert loads_table.fragmentation(found, "redis", "strata", "mean") == 250


def test_more_than_is_resident_is_no_fragmentation() -> None:
    found = results()
    found.add(Run("redis", "strata", 3, {"live_rest_kib": "14000"}))  # 7512 with the first
    text = "\n".join(loads_table.section(found, Path()))
    assert "| redis | strata | 100 | 100 | 8.0 | 8.0 | 8.0 | 2.0 | – |" in text
    assert "| 1.5 (-25 %) | 3.0 |" in text, "of nothing there is no share"


def test_bursts_are_judged_by_what_lives() -> None:
    found = Results()
    fields = {"live_kib": str(40 << 10), "rss_kib": str(85 << 10), "late_kib": str(71 << 10)}
    for name in ("strata", "online", "model"):
        found.add(Run("bursts-64", name, 1, fields))
    held = lifetimes_group.section(found, Path())
    assert held == [
        "- bursts-64, online: 71.0 MiB at rest, less the pages of bursts 1 and 2, asked for"
        " ≤ 1.5 × live + 24 MiB, here 72.0: met.",
        "- bursts-64, model: 85.0 MiB at rest, asked for ≤ 1.5 × live + 24 MiB, here 84.0: missed.",
    ]


def test_runs_in_which_other_things_lived_are_no_proof() -> None:
    found = results()
    found.add(Run("redis", "model", 3, {"live_mean_kib": "1200"}))
    text = "\n".join(loads_table.section(found, Path()))
    assert "asked for ≤ -73 %: missed, but what lived in the runs differs." in text


def test_what_a_program_holds_beyond_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its anonymous memory, less what its objects are and are rounded up to."""
    counted = stats.Stats("", 1, "", {"live": 3 << 20, "internal_slack": 1 << 20}, 0, 0, [])
    monkeypatch.setattr(loads, "ask", lambda *_: "")
    monkeypatch.setattr(stats, "loads", lambda _: counted)
    monkeypatch.setattr(loads, "memory_of", lambda _: {"RssAnon": 9 << 10})
    found = loads.held_of(os.getpid())
    assert found == {"live": 3 << 10, "rounded": 1 << 10, "beyond": 5 << 10}


def test_a_phase_without_a_reading_is_not_left_out() -> None:
    watched = loads.Watched()
    for line in ("phase=warm-up", "phase=load", "phase=burst", "phase=rest", "phase=end"):
        watched.line(line)
    watched.readings.append(loads.Reading("load", {"VmRSS": 9}))
    with pytest.raises(loads.LoadError, match="the phase burst was over before its memory"):
        watched.mean("VmRSS")


def test_the_shortest_phase_is_read() -> None:
    said = "pid=1\nphase=load\nphase=burst\nphase=end\nprogram=p"
    watched = loads.watch(["echo", said], {}, 5, lambda pid: {"VmRSS": pid}, 60)
    assert watched.readings == [loads.Reading(name, {"VmRSS": 1}) for name in ("load", "burst")]


def test_peers_run_in_fewer_rounds() -> None:
    group = lifetimes_group.LIFETIMES
    work = next(w for w in group.works if w.case.kind is Kind.LOAD)
    names = [variant.name for variant in group.variants]
    assert turns(group, work, names, 1, 3) == ["strata", "online", "model", "llama", "glibc"]
    assert turns(group, work, names, 2, 3) == ["strata", "online", "model"]
    assert turns(group, work, names, 3, 3) == []
