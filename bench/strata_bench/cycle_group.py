"""A Redis that is filled, emptied, at rest, refilled and read: hugepages kept and memory given
back."""

from __future__ import annotations

from strata_bench.allocators import DEBIAN, GLIBC
from strata_bench.groups import COVERAGE, RSS, Figure, Group, Variant, Work
from strata_bench.plan import Case, Kind

PHASES = ("fill", "delete", "refill", "read")

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
                ("400000",),
                "read_per_cpu_s",
                kind=Kind.CYCLE,
                quick=("50000",),
            ),
            (
                *(Figure(f"{name}_per_cpu_s", f"{name}s / CPU s", True) for name in PHASES),
                Figure("fill_p99_us", "fill p99", False),
                Figure("refill_p99_us", "refill p99", False),
                Figure("read_p99_us", "read p99", False),
                Figure("rested_rss_kib", "RSS at rest", False),
                RSS,
                COVERAGE,
                Figure("others_cpu_s", "CPU of other threads", False),
            ),
        ),
    ),
    rounds=3,
)

GROUPS = {CYCLE.name: CYCLE}
