"""The parts of `strata compare`: arms, plan, parsers, statistics and the run directory."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strata.compare import parsers
from strata.compare.arms import find_arm, find_arms, split_spec
from strata.compare.output import write
from strata.compare.plan import Metric, Plan
from strata.compare.record import RECORDS, MixedError, Record, RunDirectory
from strata.compare.result import Result
from strata.compare.statistics import (
    Interval,
    Verdict,
    interval,
    interval_over_hosts,
    judge,
    tail,
)
from strata.errors import StrataError

REDIS = """====== SET ======
  5000 requests completed in 0.11 seconds
Latency by percentile distribution:
0.000% <= 0.103 milliseconds (cumulative count 1)

Summary:
  throughput summary: 40000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.701     0.152     0.647     0.959     2.055    12.847
====== GET ======
Summary:
  throughput summary: 90000.00 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.5     0.1     0.4     0.9     1.0    9.0
"""
REDIS_QUIET = (
    " \rSET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r"
    "     \rSET: 19230.77 requests per second, p50=1.055 msec\n"
)
REDIS_CSV = """"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p99_latency_ms"
"SET","43859.65","0.724","0.168","0.623","6.607"
"LPUSH (needed to benchmark LRANGE)","18939.39","1.760","0.272","0.951","6.855"
"""
WRK = """Running 10s test @ http://127.0.0.1:8080/
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
    Req/Sec    56.20k     8.07k   62.00k    86.54%
  Latency Distribution
     50%  250.00us
     99%    2.50ms
  22464657 requests in 30.00s, 17.76GB read
  Non-2xx or 3xx responses: 12
Requests/sec: 748868.53
Transfer/sec:    606.33MB
"""
PGBENCH = """transaction type: <builtin: TPC-B (sort of)>
number of failed transactions: 0 (0.000%)
latency average = 11.013 ms
latency stddev = 7.351 ms
initial connection time = 45.758 ms
tps = 896.967014 (without initial connection time)
"""
MEMTIER = """ALL STATS
====================================================================================
Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     p99 Latency
------------------------------------------------------------------------------------
Sets         7640.07          ---          ---         1.01000         0.90000         3.00000
Totals      84040.80         0.00     76400.73         2.37000         2.11000         6.46000
"""


def test_redis_benchmark() -> None:
    found = parsers.parse(REDIS)
    assert found["throughput"] == pytest.approx(60000)
    assert (found["SET.rps"], found["GET.p99_ms"], found["SET.max_ms"]) == (40000, 1.0, 12.847)
    assert "SET.min_ms" not in found
    assert parsers.parse(REDIS_QUIET)["SET.p50_ms"] == 1.055
    from_csv = parsers.parse(REDIS_CSV)
    assert (from_csv["LPUSH.rps"], from_csv["SET.p99_ms"]) == (18939.39, 6.607)


def test_other_load_generators() -> None:
    assert parsers.parse(WRK) == {
        "throughput": 748868.53,
        "latency_avg_ms": pytest.approx(0.63591),
        "latency_p50_ms": 0.25,
        "latency_p99_ms": 2.5,
        "failed_requests": 12,
    }
    assert parsers.parse(PGBENCH) == {
        "throughput": 896.967014,
        "latency_avg_ms": 11.013,
        "latency_stddev_ms": 7.351,
    }
    assert parsers.parse(MEMTIER) == {
        "throughput": 84040.80,
        "latency_avg_ms": 2.37,
        "latency_p50_ms": 2.11,
        "latency_p99_ms": 6.46,
    }


def test_key_values_and_expressions() -> None:
    text = "starting\nprogram=swing mops=4.5 seconds=2e1 kind=x\ndone in 3,250 steps\n"
    assert parsers.parse(text) == {"mops": 4.5, "seconds": 20.0}
    metric = Metric.parse(r"steps:lower=in ([\d,]+) steps")
    assert metric.higher_is_better is False
    assert parsers.parse(text, [metric])["steps"] == 3250
    with pytest.raises(StrataError, match="nothing in the output matches"):
        parsers.parse("nothing", [metric])
    with pytest.raises(StrataError, match="not a number"):
        parsers.parse("x abc", [Metric.parse("m=x (.*)")])


@pytest.mark.parametrize("text", ["", "no figures here", "a=1", "tps", "Type\nTotals", "\0\xff"])
def test_other_output_has_no_figures(text: str) -> None:
    assert parsers.parse(text) == {}


def test_parsers_survive_garbage() -> None:
    rng = random.Random(3)
    for source in (REDIS, REDIS_CSV, WRK, PGBENCH, MEMTIER):
        for _ in range(60):
            letters = list(source)
            for _ in range(rng.randrange(1, 12)):
                letters[rng.randrange(len(letters))] = rng.choice('0.,"\n =x%')
            try:
                found = parsers.parse("".join(letters))
            except ValueError as error:  # a number that is none must be told, as one thing
                pytest.fail(f"{error} for {''.join(letters)!r}")
            assert all(isinstance(value, float) for value in found.values())


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("throughput", True),
        ("SET.rps", True),
        ("latency_p99_ms", False),
        ("p99_us", False),
        ("rss_valley_kib", False),
        ("coverage_valley", True),
        ("threads", None),
        ("cycles", None),
    ],
)
def test_names_tell_which_way_is_better(name: str, more: bool | None) -> None:
    assert parsers.higher_is_better(name) is more


@pytest.mark.parametrize(
    ("spec", "kind", "settings"),
    [
        ("strata", "strata", {}),
        ("strata:SAMPLE=0,CACHE=cpu", "strata", {"SAMPLE": "0", "CACHE": "cpu"}),
        ("jemalloc:MALLOC_CONF=a:1,b:2", "jemalloc", {"MALLOC_CONF": "a:1,b:2"}),
        ("path:/x/lib.so", "path:/x/lib.so", {}),
        ("path:/x/lib.so:A=b=c", "path:/x/lib.so", {"A": "b=c"}),
    ],
)
def test_arm_specs(spec: str, kind: str, settings: dict[str, str]) -> None:
    assert split_spec(spec) == (kind, settings)


def test_arms_are_found_or_told(library: Path, tmp_path: Path) -> None:
    arm = find_arm("strata:SAMPLE=0,STRATA_CACHE=cpu", library)
    environment = arm.environment({"PATH": "/bin", "STRATA_RELEASE": "off", "LD_PRELOAD": "/x.so"})
    assert environment == {
        "PATH": "/bin",
        "STRATA_SAMPLE": "0",
        "STRATA_CACHE": "cpu",
        "LD_PRELOAD": str(library),
    }
    assert "LD_PRELOAD" not in find_arm("none").environment({"LD_PRELOAD": "x"})
    assert find_arm("glibc").environment({})["LD_PRELOAD"].endswith("/libc.so.6")
    text = tmp_path / "text.so"
    text.write_text("not a library")
    for specs, said in (
        (["none"], "two or more"),
        (["none", "none"], "twice"),
        (["none", "hoard"], "unknown"),
        (["none", "strata:"], "expected NAME"),
        (["none", f"path:{text}"], "not a shared library"),
        (["none", "path:/nowhere.so"], "no such file"),
    ):
        with pytest.raises(StrataError, match=said):
            find_arms(specs, library)


def plan(**other: object) -> Plan:
    return Plan(**({"arms": ["a", "b", "c"], "command": ["true"]} | other))  # type: ignore[arg-type]


def test_order_is_random_but_repeatable() -> None:
    first = plan(rounds=40)
    assert first.runs() == plan(rounds=40).runs()
    assert first.runs()[:3] == [(0, arm) for arm in first.order(0)]
    orders = {tuple(first.order(r)) for r in range(1, 41)}
    assert len(orders) == 6
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert plan(rounds=40, seed=2).runs() != first.runs()
    assert min(r for r, _ in plan(warm_up=False).runs()) == 1


def test_plan_travels_and_notices_changes() -> None:
    first = plan(metrics=[Metric.parse("m:lower=x (.)")], rounds=3)
    again = Plan.from_json(first.to_json(), "here")
    assert again == first
    assert plan(rounds=5).hash == plan(rounds=9).hash != plan(seed=2).hash
    document = json.loads(first.to_json()) | {"seed": 7}
    with pytest.raises(StrataError, match="changed after the run began"):
        Plan.from_json(json.dumps(document), "here")
    for bad in ("", "[]", "{}", '{"hash":"x","metrics":[]}', '{"hash":1,"metrics":[{"a":1}]}'):
        with pytest.raises(StrataError, match="not a plan"):
            Plan.from_json(bad, "here")


@pytest.mark.parametrize("text", ["m", "=x", "m=[", "m=nogroup", "m=(a)(b)", "m:up=(a)", "1=(a)"])
def test_bad_metrics_are_told(text: str) -> None:
    with pytest.raises(StrataError, match="--metric"):
        Metric.parse(text)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    truth = math.exp(0.02)
    hits = 0
    for seed in range(400):
        found = interval(np.exp(generator.normal(0.02, 0.05, 10)).tolist(), seed)
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / 400 <= 0.98
    # a plain percentile interval cuts 2.5 % off at either end
    assert tail(10) < 0.015
    assert tail(1000) == pytest.approx(0.025, abs=0.001)


def test_interval_is_seeded_and_needs_two() -> None:
    ratios = [1.0, 1.1, 1.05, 0.95, 1.2]
    assert interval(ratios, 3) == interval(ratios, 3)
    assert interval(ratios, 3) != interval(ratios, 4)
    one = interval([1.5])
    assert (one.ratio, one.low, one.high) == (1.5, 0.0, math.inf)


def test_verdicts() -> None:
    def said(low: float, high: float, *, more: bool = True) -> Verdict:
        return judge(Interval(math.sqrt(low * high), low, high, 10), more).verdict

    assert said(0.995, 1.004) is Verdict.SAME
    assert said(1.001, 1.004) is Verdict.SAME  # different, but by less than matters
    assert said(1.02, 1.1) is Verdict.BETTER
    assert said(1.02, 1.1, more=False) is Verdict.WORSE
    assert said(0.8, 0.9) is Verdict.WORSE
    assert said(0.95, 1.08) is Verdict.OPEN
    assert judge(Interval(1.0, 0.999, 1.001, 3), True).verdict is Verdict.TOO_FEW


def test_more_rounds_suffice() -> None:
    """What is asked for decides: with that many rounds of the same spread the verdict is there."""
    generator = np.random.default_rng(11)
    decided = tried = 0
    for seed in range(30):
        draws = np.exp(generator.normal(0.03, 0.06, 4000)).tolist()
        first = judge(interval(draws[:8], seed), True)
        if first.verdict is Verdict.OPEN and first.more_rounds is not None:
            tried += 1
            count = 8 + 3 * first.more_rounds  # the estimate is one of the middle
            later = judge(interval(draws[: min(count, 4000)], seed), True).verdict
            decided += later is not Verdict.OPEN
    assert tried >= 5
    assert decided >= 0.7 * tried


def record(of: Plan, arm: str, number: int, **figures: float) -> Record:
    return Record(of.hash, "here", number, arm, 1.0, figures=dict(figures))


def test_records_are_kept_and_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    mine = plan()
    folder = RunDirectory.create(tmp_path / "run", mine)
    folder.add(record(mine, "a", 1, wall_s=1.5))
    folder.add(record(mine, "b", 1, wall_s=2.5))
    folder.close()
    path = tmp_path / "run" / RECORDS
    whole = path.read_bytes()
    for cut in (1, len(whole) // 4):
        path.write_bytes(whole[:-cut])
        again = RunDirectory.open(tmp_path / "run")
        assert [r.arm for r in again.records] == ["a"]
        again.add(record(mine, "b", 1, wall_s=3.5))
        again.close()
        assert RunDirectory.open(tmp_path / "run").records[1].figures == {"wall_s": 3.5}
    with pytest.raises(StrataError, match="holds a run already"):
        RunDirectory.create(tmp_path / "run", mine)
    with pytest.raises(StrataError, match=r"no plan\.json"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize("line", ["garbage", "[]", '{"plan":"x"}', '{"a":1}'])
def test_a_line_that_is_no_record_is_told_with_its_place(tmp_path: Path, line: str) -> None:
    RunDirectory.create(tmp_path / "run", plan()).close()
    (tmp_path / "run" / RECORDS).write_text(line + "\n")
    with pytest.raises(StrataError, match=r"records\.jsonl:1"):
        RunDirectory.open(tmp_path / "run")


def test_records_of_another_plan_or_library_are_refused(tmp_path: Path) -> None:
    mine = plan()
    folder = RunDirectory.create(tmp_path / "run", mine)
    first = record(mine, "a", 1)
    first.fingerprint, first.kernel = "old", "6.1"
    folder.add(first)
    with pytest.raises(StrataError, match="not the one that the first runs used"):
        folder.check_same("here", {"a": "new"}, "")
    folder.check_same("there", {"a": "new"}, "6.2")
    with pytest.raises(StrataError, match=r"the kernel is 6\.2, the first runs used 6\.1"):
        folder.check_same("here", {"a": "old"}, "6.2")
    for change in ({"fingerprint": "new"}, {"kernel": "6.2"}):
        with pytest.raises(MixedError):
            folder.add(replace(first, round=2, **change))  # type: ignore[arg-type]
    folder.check_same("here", {"a": "old"}, "6.1")
    assert folder.records == [first]
    folder.add(record(plan(seed=9), "a", 2))
    folder.close()
    with pytest.raises(StrataError, match="another plan"):
        RunDirectory.open(tmp_path / "run")


def test_failed_and_warm_up_runs_are_counted_but_not_averaged() -> None:
    mine = plan(arms=["a", "b"], rounds=7)
    records = []
    for number in range(8):
        records.append(record(mine, "a", number, wall_s=100.0 if number == 0 else 2.0))
        records.append(record(mine, "b", number, wall_s=1.0, coverage=0.0))
    broken = record(mine, "b", 7)
    broken.error = "killed by SIGSEGV: ouch"
    records[-1] = broken
    result = Result(mine, records, 0.01)
    (row,) = result.rows  # coverage is 0 everywhere and says nothing
    assert (row.name, row.cells[0].median, row.cells[0].runs, row.cells[1].runs) == (
        "wall_s",
        2.0,
        7,
        6,
    )
    judged = row.cells[1].judgement
    assert judged is not None
    assert judged.interval.ratio == pytest.approx(0.5)
    assert judged.verdict is Verdict.BETTER
    (failure,) = result.failures()
    assert (failure.arm, failure.failed, failure.of) == ("b", 1, 8)
    assert "SIGSEGV" in failure.reason
    assert result.missing() == 0
    assert Result(mine, records[:-3], 0.01).missing() == 3


def test_hosts_are_paired_with_themselves() -> None:
    """A slow and a fast machine: only ratios within one say anything."""
    mine = plan(arms=["a", "b"], rounds=6, warm_up=False)
    records = []
    for host, speed in (("slow", 10.0), ("fast", 1.0)):
        for number in range(1, 7):
            for arm, factor in (("a", 1.0), ("b", 1.1)):
                one = record(mine, arm, number, wall_s=speed * factor)
                one.host = host
                records.append(one)
    found = Result(mine, records, 0.01).interval("b", "wall_s")
    assert found is not None
    assert found.rounds == 12
    assert found.ratio == pytest.approx(1.1)
    assert found.high - found.low < 1e-6


def test_a_round_is_paired_within_one_session(tmp_path: Path) -> None:
    """What ran before an interruption is not held to what ran after it."""
    mine = plan(arms=["a", "b"], rounds=7, warm_up=False)
    folder = RunDirectory.create(tmp_path / "run", mine)

    def add(session: str, arm: str, number: int, wall: float) -> None:
        folder.add(replace(record(mine, arm, number, wall_s=wall), session=session))

    add("old", "a", 1, 100.0)
    add("old", "b", 1, 110.0)
    add("old", "a", 2, 100.0)  # cut off here; the machine is twice as fast today
    assert folder.done("here") == {(1, "a"), (1, "b")}
    for number in range(2, 8):
        add("new", "b", number, 55.0)
        if number == 2:
            assert Result(mine, folder.records, 0.01).interval("b", "wall_s").rounds == 1  # type: ignore[union-attr]
        add("new", "a", number, 50.0)
    assert len(folder.done("here")) == 14
    folder.close()
    found = Result(mine, folder.records, 0.01).interval("b", "wall_s")
    assert found is not None
    assert found.rounds == 7
    assert found.ratio == pytest.approx(1.1)
    assert found.high - found.low < 1e-6


def test_a_zero_is_told(tmp_path: Path) -> None:
    """Hugepage coverage of glibc is often 0: there is no ratio, and the reader learns why."""
    mine = plan(arms=["a", "b"], rounds=6, warm_up=False)
    records = []
    for number in range(1, 7):
        records.append(record(mine, "a", number, coverage=0.0 if number < 3 else 0.1))
        records.append(record(mine, "b", number, coverage=0.9))
    result = Result(mine, records, 0.01)
    (row,) = result.rows
    assert row.cells[1].judgement is None
    said = "no ratio: zero in 2 of 6 rounds"
    assert row.cells[1].sentence(0.01) == said
    assert row.cells[0].sentence(0.01) == ""
    assert result.to_json()["figures"][0]["arms"][1]["sentence"] == said
    write(result, tmp_path)
    assert said in (tmp_path / "index.html").read_text()


def test_rounds_of_several_hosts_do_not_add_up_to_a_verdict() -> None:
    """Two hosts of three rounds are not six rounds."""
    found = interval_over_hosts([[1.1, 1.1, 1.1], [1.1, 1.1, 1.1]])
    assert (found.rounds, found.rounds_each) == (6, 3)
    judged = judge(found, True)
    assert (judged.verdict, judged.more_rounds) == (Verdict.TOO_FEW, 3)
    assert judge(interval_over_hosts([[1.1] * 6, [1.1] * 7]), True).verdict is Verdict.BETTER


def test_hosts_that_disagree_leave_it_open() -> None:
    generator = np.random.default_rng(3)
    ratios = [np.exp(generator.normal(mean, 0.01, 40)).tolist() for mean in (-0.02, 0.08)]
    found = interval_over_hosts(ratios)
    assert found.low < 0.985
    assert found.high > 1.075
    judged = judge(found, True)
    assert judged.verdict is Verdict.OPEN
    assert judged.sentence(0.01) == "undecided: the hosts differ"
    # the same spread within each host is cured by more rounds
    one = np.exp(generator.normal(0.03, 0.06, 80))
    judged = judge(interval_over_hosts([one[:40].tolist(), one[40:].tolist()]), True)
    assert judged.verdict is not Verdict.OPEN or judged.more_rounds is not None


def test_the_interval_over_hosts_covers_the_truth() -> None:
    """Hosts drawn around 2 %, rounds around their host: plain resampling of all rounds would find
    the truth about half of the time."""
    generator = np.random.default_rng(9)
    hits = plain = 0
    for seed in range(200):
        hosts = generator.normal(0.02, 0.02, 5)
        ratios = [np.exp(generator.normal(host, 0.02, 10)).tolist() for host in hosts]
        found = interval_over_hosts(ratios, seed)
        hits += found.low <= math.exp(0.02) <= found.high
        flat = interval([ratio for rounds in ratios for ratio in rounds], seed)
        plain += flat.low <= math.exp(0.02) <= flat.high
    assert hits >= 0.92 * 200
    assert plain < 0.8 * 200
