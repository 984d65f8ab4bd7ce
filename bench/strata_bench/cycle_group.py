"""A Redis that is filled, emptied, at rest, refilled and read: hugepages kept and memory given
back, and what hugepages cost the fill."""

from __future__ import annotations

from strata.compare.statistics import MIN_ROUNDS

from strata_bench.allocators import DEBIAN, GLIBC
from strata_bench.groups import COVERAGE, RSS, Figure, Group, Variant, Work
from strata_bench.plan import Case, Kind
from strata_bench.redis_cycle import PHASES

CYCLE = Group(
    "cycle",
    "A day of Redis: burst, rest, refill",
    "Debian's redis-server gets 400,000 keys of 64 B to 4 KiB, loses 70 % of them at random, rests"
    " for 15 s, gets them again and is read for 15 s. Requests count by the CPU time of the"
    " server's own thread. RSS and hugepage coverage are those at the end, RSS at rest that before"
    " the refill. The base gives nothing back by itself.",
    (
        Variant("release off", {"STRATA_RELEASE": "off"}),
        Variant("strata"),
        Variant("jemalloc", library=DEBIAN / "libjemalloc.so.2"),
        Variant("glibc", library=GLIBC),
    ),
    (
        Work(
            Case(
                "cycle",
                "redis",
                ("400000", "15", "15"),  # keys, seconds of rest, seconds of reads
                "read_per_cpu_s",
                kind=Kind.CYCLE,
                quick=("50000", "2", "2"),
            ),
            (
                *(Figure(f"{n}_per_cpu_s", f"{n}s / CPU s", True) for n in PHASES),
                Figure("fill_p99_us", "fill p99", False),
                Figure("refill_p99_us", "refill p99", False),
                Figure("read_p99_us", "read p99", False),
                Figure("rested_rss_kib", "RSS at rest", False),
                RSS,
                COVERAGE,
                Figure("others_seconds", "CPU of other threads", False),
            ),
        ),
    ),
    rounds=3,
)


def _phase(name: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{name}_per_s", f"{name}: requests / s", True),
        Figure(f"{name}_per_cpu_s", f"{name}: requests / CPU s of the serving thread", True),
        Figure(f"{name}_system_seconds", f"{name}: system time of the serving thread", False),
        Figure(f"{name}_p50_us", f"{name}: p50", False),
        Figure(f"{name}_p99_us", f"{name}: p99", False),
        Figure(f"{name}_others_seconds", f"{name}: CPU of other threads", False),
    )


FILL = Group(
    "fill",
    "What hugepages cost a Redis that fills",
    "The load of the [cycle](../../bench/strata_bench/redis_cycle.py) with 6 s of rest and 4 s of"
    " reads, on arms that differ by"
    " hugepages alone or by who asks for them. glibc with `glibc.malloc.hugetlb=1` asks for"
    " hugepages by advice, as Strata does: its step from plain glibc is what they cost and save,"
    " whoever allocates. `STRATA_HUGEPAGES=off` is Strata without them."
    " `STRATA_BACKGROUND=off` is Strata without its thread: nothing is populated ahead, given back"
    " or rebuilt. A latency is that of a pipeline of 64 requests. System time is counted in"
    " hundredths of a second.",
    (
        Variant("glibc", library=GLIBC),
        Variant("glibc, hugepages", {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, GLIBC),
        Variant("Strata"),
        Variant("Strata, no hugepages", {"STRATA_HUGEPAGES": "off"}),
        Variant("Strata, no background", {"STRATA_BACKGROUND": "off"}),
    ),
    (
        Work(
            Case(
                "cycle",
                "redis",
                ("400000", "6", "4"),
                "fill_per_cpu_s",
                kind=Kind.CYCLE,
                quick=("20000", "1", "1"),
            ),
            (*(figure for name in PHASES for figure in _phase(name)), RSS, COVERAGE),
        ),
    ),
    rounds=MIN_ROUNDS,
)

GROUPS = {group.name: group for group in (CYCLE, FILL)}
