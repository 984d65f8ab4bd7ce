"""The experiment groups: interleaving, left-out variants, limits, the table.
Programs are shell scripts, so nothing here measures anything."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from blackbox import ROOT, find_library, missing, need
from strata import control
from strata.processes import Process
from strata.procfs import V1_MEMORY, V2_ROOT
from strata.redis import RedisError
from strata_bench import (
    cycle_group,
    glossary,
    groups,
    limited,
    reap_groups,
    redis_cycle,
    server_group,
    switched,
)
from strata_bench.allocators import GLIBC, Allocator
from strata_bench.groups import Figure, Group, Variant, Work
from strata_bench.plan import CASES, Case
from strata_bench.results import Results, Run

PROGRAM = """#!/bin/sh
[ "$STRATA_BAD" = 1 ] && { echo "strata: unknown option STRATA_BAD ignored" >&2; exit 0; }
[ "$STRATA_FAIL" = 1 ] && exit 3
echo "$STRATA_RATE $STRATA_SHARED" >> "$0.log"
echo "program=fake mops=$STRATA_RATE rss_kib=2048 coverage=0"
"""
FIGURES = (Figure("mops", "rate", True), Figure("rss_kib", "RSS", False))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in ("fake", "tight"):
        path = tmp_path / name
        path.write_text(PROGRAM)
        path.chmod(0o755)
    return tmp_path


def group(*variants: Variant, env: dict[str, str] | None = None, limit: int = 0) -> Group:
    work = Work(Case("work", "fake", (), "mops", quick=()), FIGURES, env or {}, limit)
    return Group("test", "A test", "About it.", variants, (work,), 8)


SLOW = Variant("slow", {"STRATA_RATE": "2"})
FAST = Variant("fast", {"STRATA_RATE": "3"})
FAILING = Variant("failing", {"STRATA_RATE": "2", "STRATA_FAIL": "1"})


def allocators(of: Group) -> dict[str, Allocator]:
    return {v.name: Allocator(v.name, "", None, v.env) for v in of.variants}


def run(of: Group, programs: Path, rounds: int = 8) -> Results:
    return groups.run(of, allocators(of), programs, rounds, lambda _: None, quick=False)


def test_runs_are_interleaved_and_share_the_works_settings(programs: Path) -> None:
    one = group(SLOW, FAST, env={"STRATA_SHARED": "yes"})
    results = run(one, programs, 12)
    log = (programs / "fake.log").read_text().split("\n")[:-1]
    assert sorted(set(log)) == ["2 yes", "3 yes"]
    pairs = [tuple(log[i : i + 2]) for i in range(0, 24, 2)]
    assert set(pairs) == {("2 yes", "3 yes"), ("3 yes", "2 yes")}  # each round has both orders
    assert [r.round for r in results.of("work", "slow")] == list(range(1, 13))


def test_the_table_says_what_differs(programs: Path) -> None:
    one = group(SLOW, FAST, FAILING)
    text = groups.page(one, run(one, programs), {"gone": "not built"}, "How.")
    assert "| work | slow | fast | failing |" in text
    assert "| rate | 2 | **1.500 (1.500 to 1.500)** better | – |" in text
    assert "| RSS | 2.0 MiB | 1.000 (1.000 to 1.000) same | – |" in text
    assert "- Left out: gone (not built)." in text
    assert "- work, failing, round 1: exit 3" in text


def test_a_figure_that_is_zero_stands_for_itself() -> None:
    results = Results()
    for number in range(1, 9):
        for name, coverage in (("slow", 0), ("fast", 0.5)):
            fields = {"coverage": str(coverage)}
            results.add(Run("work", name, number, fields))
    one = group(SLOW, FAST, FAILING)
    (work,) = one.works
    covered = replace(one, works=(replace(work, figures=(groups.COVERAGE,)),))
    text = groups.page(covered, results, {}, "How.")
    assert "| hugepage coverage | 0.0 % | 50.0 % | – |" in text


def test_the_cycles_client_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    need("redis-server")
    monkeypatch.setenv("STRATA_STATS", "/nowhere")  # of the caller's shell
    fields = redis_cycle.measure(Allocator("glibc", "", GLIBC), 3000, 0.05, 0.2)
    for one in cycle_group.GROUPS.values():
        for figure in one.works[0].figures:
            assert float(fields[figure.key]) >= 0, figure.key
    assert float(fields["fill_per_cpu_s"]) > float(fields["fill_per_s"]) * 0.5
    assert 0 < float(fields["read_p50_us"]) <= float(fields["read_p99_us"])
    assert float(fields["others_seconds"]) < 0.1


def test_a_variant_that_the_build_lacks_is_left_out(programs: Path, tmp_path: Path) -> None:
    allocator = Allocator("bad", "", None, {"STRATA_BAD": "1"})
    assert "unknown option STRATA_BAD" in limited.complaint(allocator, programs / "tight")
    assert limited.complaint(Allocator("fine", "", None), programs / "tight") == ""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tight").symlink_to("/bin/true")
    one = group(Variant("here"), Variant("peer", library=tmp_path / "none.so"))
    found, skipped = groups.prepare(one, GLIBC, folder)
    assert list(found) == ["here"]
    assert "is not there" in skipped["peer"]


def test_sampling_is_held_to_its_targets() -> None:
    results = Results()
    for number in range(1, 9):
        for name, rate in (("off", 100), ("2 MiB", 99.5), ("256 KiB", 90 + number % 2)):
            fields = {"requests_per_s": str(rate), "requests_per_cpu_s": "50"}
            results.add(Run("redis", name, number, fields))
    text = groups.page(groups.SAMPLING, results, {}, "How.")
    assert "| requests / CPU s | 50 | 1.000 (1.000 to 1.000) same |" in text
    what = "requests / s"
    assert f"2 MiB: {what} 0.995 (0.995 to 0.995) × off, asked for ≥ 0.99: met." in text
    assert "asked for ≥ 0.97: missed." in text


def test_a_target_at_most_and_one_that_the_interval_leaves_open() -> None:
    results = Results()
    for number in range(1, 9):
        for name, rss, rate in (("static", 100, 100), ("adaptive", 97, 98 + number % 3)):
            fields = {"rss_mean_kib": str(rss), "mops": str(rate), "misses_per_kop": "2"}
            results.add(Run("tides", name, number, fields))
    text = groups.page(groups.ADAPTIVE, results, {}, "How.")
    assert "mean RSS 0.970 (0.970 to 0.970) × static, asked for ≤ 0.98: met." in text
    assert "asked for ≥ 0.99: met, but the interval holds both." in text
    assert "asked for ≤ 1.0: met" in text


def test_no_run_under_the_limit_may_be_killed() -> None:
    for errors, said in (
        ([""] * 20, "- strata: 20 of 20 runs finished, asked for all: met."),
        ([""] * 19 + [limited.KILLED], "- strata: 19 of 20, 1 killed runs finished, asked for all"),
    ):
        results = Results()
        for number, error in enumerate(errors, 1):
            for name in ("strata", "glibc"):
                fields = {} if error else {"seconds": "2", "peak_rss_kib": "1024"}
                results.add(Run("container", name, number, fields, error))
        text = groups.page(groups.LIMITS, results, {}, "How.")
        assert said in text
        assert "- glibc" not in text
    assert "asked for all: missed." in text


class Server:
    """Serves 1,000 requests a second, 900 while the setting is `slow`, on nine tenths of a core."""

    def __init__(self) -> None:
        self.value = "nothing"
        self.switches: list[str] = []
        self.now = switched.Reading(0, 0, 0)

    def switch(self, value: str) -> None:
        self.value = value
        self.switches.append(value)

    def read(self) -> switched.Reading:
        return self.now

    def wait(self, seconds: float) -> None:
        served = seconds * (900 if self.value == "slow" else 1000)
        ns = round(seconds * 1e9)
        self.now = switched.Reading(
            self.now.requests + round(served), self.now.cpu_ns + ns * 9 // 10, self.now.at_ns + ns
        )


def test_slices_are_measured_in_random_order() -> None:
    server = Server()
    found = switched.slices(
        {"one": "fast", "two": "slow"}, 40, server.switch, server.read, server.wait
    )
    rows = list(found)
    assert [number for number, _, _ in rows] == [n for n in range(1, 41) for _ in range(2)]
    rounds = [tuple(server.switches[i : i + 2]) for i in range(0, 80, 2)]
    assert set(rounds) == {("fast", "slow"), ("slow", "fast")}
    for _, name, fields in rows:
        rate = 1000 if name == "one" else 900
        assert float(fields["requests_per_s"]) == pytest.approx(rate, rel=0.01)
        assert float(fields["requests_per_cpu_s"]) == pytest.approx(rate / 0.9, rel=0.01)


def test_a_load_that_ended_is_told() -> None:
    server = Server()
    with pytest.raises(RedisError, match="is the load gone"):
        list(switched.slices({"a": "x"}, 1, server.switch, server.read, lambda _: None))


def test_the_sampler_is_switched_in_a_running_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    need("redis-server")
    need("redis-benchmark")
    library = find_library()
    if library is None:
        pytest.skip("only Strata has a sampler")
    monkeypatch.setattr(switched, "SLICE_SECONDS", 0.1)
    asked: list[str] = []

    def ask(process: Process, request: str) -> bytes:
        answer = control.ask(process, request)
        asked.append(control.ask(process, "get sample").decode().strip())
        return answer

    monkeypatch.setattr(switched, "ask", ask)
    one = groups.SAMPLING
    variants = {v.name: Allocator(v.name, "", library, v.env) for v in one.variants}
    results = groups.run(one, variants, ROOT, 2, lambda _: None, quick=True)
    assert not results.failures(), results.failures()
    assert len(asked) == 6
    assert len(set(asked[:3])) == len(set(asked[3:])) == 3, asked
    for name in variants:
        assert sorted(results.values("redis", name, "requests_per_s")) == [1, 2]
    assert "| requests / s |" in groups.page(one, results, {}, "How.")


HOG = """#!/usr/bin/env python3
import os, sys
block = bytearray(int(os.environ["MIB"]) << 20)
for i in range(0, len(block), 4096): block[i] = 1
print("program=hog seconds=1.5 mops=1")
"""


def test_a_kill_for_memory_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "fake").write_text(HOG)
    (tmp_path / "fake").chmod(0o755)
    small, large = Variant("small", {"MIB": "8"}), Variant("large", {"MIB": "256"})
    one = group(small, large, limit=64)
    results = run(one, tmp_path, 1)
    if "no memory cgroup" in results.of("work", "small")[0].error:
        missing("no memory cgroup can be made here")
    assert limited.ends(results, "work", "small") == "1 of 1"
    assert limited.ends(results, "work", "large") == "0 of 1, 1 killed"
    text = groups.page(one, results, {}, "How.")
    assert "| finished | 1 of 1 | 0 of 1, 1 killed |" in text
    mine = f"strata-bench-limit-{os.getpid()}"
    assert not any(any(top.rglob(mine)) for top in (V1_MEMORY, V2_ROOT))


def test_the_groups_are_whole() -> None:
    programs = Path(__file__).resolve().parent.parent / "programs"
    for one in (groups.GROUPS | server_group.GROUPS).values():
        assert len({v.name for v in one.variants}) == len(one.variants) >= 2
        for work in one.works:
            assert work.case.metric in {f.key for f in work.figures}
            if work.case.program != "redis":
                path = programs / f"{work.case.program}.cpp"
                if path.exists():
                    text = path.read_text() + (programs / "common.h").read_text()
                    lacking = [f.key for f in work.figures if f"{f.key}=" not in text]
                    assert not lacking, (one.name, lacking)


def test_targets_may_name_their_work(programs: Path) -> None:
    works = tuple(
        Work(Case(name, "fake", (), "mops", quick=()), FIGURES, {"STRATA_SHARED": name})
        for name in ("one", "two")
    )
    goals = (groups.Target("fast", "mops", 1.4, "two"), groups.Target("fast", "mops", 1.6, "one"))
    both = Group("test", "A test", "About it.", (SLOW, FAST), works, 8, targets=goals)
    page = groups.page(both, run(both, programs), {}, "how")
    assert "- two, fast: rate" in page
    assert "- one, fast: rate" in page
    met = [line.rsplit(": ", 1)[1] for line in page.splitlines() if ", asked for" in line]
    assert met == ["met.", "missed."]


def test_targets_may_name_another_base(programs: Path) -> None:
    work = Work(Case("one", "fake", (), "mops", quick=()), FIGURES)
    goals = (groups.Target("slow", "mops", 0.9, base="fast"),)
    both = Group("test", "A test", "About it.", (SLOW, FAST), (work,), 8, targets=goals)
    page = groups.page(both, run(both, programs), {}, "how")
    (line,) = (line for line in page.splitlines() if ", asked for" in line)
    assert " × fast, asked for ≥ 0.9: missed." in line


def test_what_a_reap_holds_is_judged_by_the_worst_round(tmp_path: Path) -> None:
    results = Results()
    for number, over in enumerate(("1.1", "1.25", "1.15"), 1):
        results.add(Run("longrun-random", "reap", number, {"over": over}))
    (line,) = reap_groups.held(results, tmp_path)
    assert "holds at most 1.250 × what is live" in line
    assert line.endswith("missed.")


def test_a_heap_lies_beside_strata(tmp_path: Path) -> None:
    (tmp_path / "tight").touch()
    heap = Group("test", "A test", "About it.", (Variant("other", heap="other"),), (), 1)
    _, skipped = groups.prepare(heap, tmp_path / "libstrata.so", tmp_path)
    assert skipped == {"other": f"{tmp_path / 'libstrata-other.so'} is not there"}


def test_every_work_of_the_page_is_explained() -> None:
    unexplained = [c.name for c in CASES if not any(c.name.startswith(w) for w in glossary.WORKS)]
    assert not unexplained
