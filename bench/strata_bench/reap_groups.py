"""The groups for reaps, regions and pools: one program, whose kinds of memory are its variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from strata_bench.allocators import GLIBC
from strata_bench.groups import Figure, Group, Target, Variant, Work
from strata_bench.plan import Case
from strata_bench.results import Results

NS = Figure("ns", "ns / allocation", False)
PEAK = Figure("hwm_kib", "peak RSS", False)
OVER = 1.2  # of what is live, and one chunk
FASTER = 1.3  # than malloc
MALLOCS = ("malloc, Strata", "malloc, glibc")


def _region(name: str, allocations: str) -> Work:
    case = Case(name, name, ("--seconds=0.3",), quick=("--scale=0.1",))
    return Work(case, (replace(NS, label=f"ns / allocation, {allocations}"),))


def _endless(load: str) -> Work:
    case = Case(
        f"longrun-{load}", "longrun", (f"--load={load}", "--steps=400000"), quick=("--scale=0.1",)
    )
    return Work(case, (NS, PEAK))


SPEEDS = (
    _region("parser", "nothing freed until the end"),
    _region("frontend", "nothing freed until the end"),
    _region("server", "a third freed at once"),
)
ENDLESS = (_endless("random"), _endless("queue"))


def held(results: Results, _images: Path) -> list[str]:
    """What a reap holds where a region grows without bound: the worst of all rounds."""
    lines = []
    for work in ENDLESS:
        worst = results.worst(work.case.name, "reap", "over")
        if worst is not None:
            verdict = "met" if worst <= OVER else "missed"
            lines.append(
                f"- {work.case.name}, reap: holds at most {worst:.3f} × what is live, and one"
                f" chunk, asked for ≤ {OVER}: {verdict}."
            )
    return lines


REAPS = Group(
    "reaps",
    "Reaps and regions",
    "Three programs written for regions, one thread, with four kinds of memory: a plain bump"
    " region (no header, nothing is freed until the end), a reap (`strata_reap_malloc_inline`,"
    " cleared at the end), and malloc with a free for each object, on Strata and on glibc. A figure"
    " is the time of the whole program divided by its allocations. And 400,000 steps of two loads"
    " that have no end, in which a region grows without bound: `longrun-random`, 3,000 objects that"
    " come and go in any order while their sizes drift from 16 to 1,500 bytes, and `longrun-queue`,"
    " 4,000 objects on their way from a producer to a consumer on another thread. Where"
    " nothing is freed until the end, the whole program on reaps takes as many instructions per"
    " allocation as on the bump region, counted by valgrind (97 in `parser`, of which the reap's"
    " own are 8, 185 in `frontend`); frees can't be counted so, for Strata stands down beside"
    " valgrind, and a reap's frees then take another path. A reap is slower because its blocks are"
    " larger, by 8 bytes and never below 32: `parser` has 1.39 first-level cache misses per"
    " allocation on reaps and 0.95 on regions, by valgrind's model of a cache.",
    (
        Variant("bump region", args=("--heap=bump",)),
        Variant("reap", args=("--heap=reap",)),
        Variant("malloc, Strata", args=("--heap=malloc",)),
        Variant("malloc, glibc", library=GLIBC, args=("--heap=malloc",)),
    ),
    (*SPEEDS, *ENDLESS),
    rounds=10,
    targets=(
        *(Target("reap", NS.key, 1.05, work.case.name) for work in SPEEDS),
        *(
            Target("reap", NS.key, round(1 / FASTER, 3), work.case.name, base)
            for work in SPEEDS
            for base in MALLOCS
        ),
    ),
    more=held,
)

POOLS = Group(
    "pools",
    "Pools for std::pmr containers",
    "Each thread fills and destroys hash maps, lists and vectors of strings. With `handover`"
    " another thread destroys them. libstdc++'s pool has the heap of Strata below it, too.",
    (
        Variant("pool_resource", args=("--resource=pool",)),
        Variant("synchronized_pool_resource", args=("--resource=synchronized",)),
        Variant("memory_resource (new)", args=("--resource=new",)),
    ),
    tuple(
        Work(
            Case(name, "pools", (*args, "--seconds=0.4"), quick=("--scale=0.1",)),
            (replace(NS, label="ns / round"),),
        )
        for name, args in (
            ("pools-t1", ("--threads=1",)),
            ("pools-t2", ("--threads=2",)),
            ("pools-handover", ("--threads=2", "--handover=1")),
        )
    ),
    rounds=10,
)

GROUPS = {group.name: group for group in (REAPS, POOLS)}
