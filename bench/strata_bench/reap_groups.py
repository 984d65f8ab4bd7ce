"""The groups for reaps, regions and pools: one program, whose kinds of memory are its variants."""

from __future__ import annotations

from dataclasses import replace

from strata_bench.allocators import GLIBC
from strata_bench.groups import Figure, Group, Target, Variant, Work
from strata_bench.plan import Case

NS = Figure("ns", "ns / allocation", False)


def _region(name: str, allocations: str) -> Work:
    case = Case(name, name, ("--seconds=0.4",), quick=("--scale=0.1",))
    return Work(case, (replace(NS, label=f"ns / allocation, {allocations}"),))


REAPS = Group(
    "reaps",
    "Reaps and regions",
    "Three programs written for regions, one thread, with four kinds of memory: a plain bump"
    " region (no header, nothing is freed until the end), a reap (`strata_reap_malloc_inline`,"
    " cleared at the end), and malloc with a free for each object, on Strata and on glibc. A figure"
    " is the time of the whole program divided by its allocations.",
    (
        Variant("bump region", args=("--heap=bump",)),
        Variant("reap", args=("--heap=reap",)),
        Variant("malloc, Strata", args=("--heap=malloc",)),
        Variant("malloc, glibc", library=GLIBC, args=("--heap=malloc",)),
    ),
    (
        _region("parser", "nothing freed until the end"),
        _region("frontend", "nothing freed until the end"),
        _region("server", "a third freed at once"),
    ),
    rounds=10,
    targets=tuple(
        Target("reap", NS.key, 1.05, program) for program in ("parser", "frontend", "server")
    ),
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
