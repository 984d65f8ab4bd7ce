"""Placement by learned lifetimes: bursts of which a little stays, what a look-up costs, and four
loads that live as servers do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from strata_bench import loads_model, loads_table
from strata_bench.allocators import GLIBC
from strata_bench.groups import Figure, Group, Target, Variant, Work
from strata_bench.plan import Case
from strata_bench.results import Results

OFF, ONLINE, MODEL = "strata", "online", loads_model.VARIANT.name
RSS_AT_REST = Figure("rss_kib", "RSS after 10 s of rest", False)
SIZES = (64, 256, 1024)
COST = Figure("ns", "malloc and free, ns", False)
WITHIN = 1.3  # of the time without a prediction
# What bursts may hold at rest: with a model, and what was learned meanwhile from the third on.
TIMES_LIVE, BESIDE_MIB = 1.5, 24
HELD = {  # of which figure, how much of what lives, and in words
    ONLINE: ("late_kib", 0.8, ", less the pages of bursts 1 and 2"),
    MODEL: ("rss_kib", 1.0, ""),
}


def _bursts(size: int) -> Work:
    return Work(
        Case(
            f"bursts-{size}",
            "bursts",
            (f"--size={size}", "--pause=0.3"),
            "rss_kib",
            rounds=2,
            peer_rounds=1,
            quick=("--scale=0.2", "--idle=1"),
        ),
        (
            Figure("mops", "objects / µs", True),
            Figure("rss_second_kib", "RSS after the second burst", False),
            RSS_AT_REST,
            Figure("late_kib", "the same, less the pages of bursts 1 and 2", False),
        ),
        only=(OFF, ONLINE, MODEL, "glibc", "jemalloc"),
    )


def _at_once(work: Work) -> Work:
    args = tuple(word for word in work.case.args if not word.startswith("--pause"))
    case = replace(work.case, name=f"{work.case.name}-at-once", args=args, rounds=1)
    return replace(work, case=case, only=(OFF, ONLINE, MODEL))


def _cost(at: str, threads: int) -> Work:
    name = f"predicted-{at}-t{threads}"
    args = (f"--at={at}", f"--threads={threads}", "--seconds=0.5")
    case = Case(name, "predicted", args, "ns", rounds=3, quick=("--scale=0.2", "--teach=0.5"))
    return Work(case, (COST,), only=(OFF, ONLINE))


BURSTS = tuple(_bursts(size) for size in SIZES)
COSTS = tuple(_cost(at, threads) for at in ("other", "wrapper") for threads in (1, 2))


def _held_lines(results: Results) -> list[str]:
    lines = []
    for work in BURSTS:
        for variant, (key, share, where) in HELD.items():
            held = results.median(work.case.name, variant, key)
            live = results.median(work.case.name, variant, "live_kib")
            if held is None or live is None:
                continue
            bound = TIMES_LIVE * share * live / 1024 + BESIDE_MIB
            lines.append(
                f"- {work.case.name}, {variant}: {held / 1024:.1f} MiB at rest{where}, asked for"
                f" ≤ {TIMES_LIVE} × live + {BESIDE_MIB} MiB, here {bound:.1f}:"
                f" {'met' if held / 1024 <= bound else 'missed'}."
            )
    return lines


def section(results: Results, images: Path) -> list[str]:
    """What the page says besides its tables and the ratios asked for."""
    return [*loads_table.section(results, images), *_held_lines(results)]


LIFETIMES = Group(
    "lifetimes",
    "Placement by lifetimes, learned while the program runs",
    "`bursts --pause=0.3`: ten bursts of 384 MiB of one size, 0.3 s apart, of which one object in a"
    " hundred stays, 38 MiB in all. Both kinds come from one function that calls malloc, at one"
    " height of the stack; only its caller tells them apart. The first burst ends before anything"
    " can be learned, so what it leaves lies all over its pages for good: of 64 B, on 64 in a"
    " hundred, 246 MiB. The last row leaves out pages on which something of the first two bursts"
    " lies; of the others 30.7 MiB stay. `at-once` is without the pauses. `predicted`: pairs of"
    " malloc and free in a process in which something is predicted; at `other` in a function"
    " that allocates nothing that lasts, at `wrapper` in one whose callers"
    " have to be told apart. `online` is `STRATA_LIFETIMES=online`; `model` has a model trained on"
    " one recording of each of the bursts and of the four loads.",
    (
        Variant(OFF),
        Variant(ONLINE, {"STRATA_LIFETIMES": "online"}),
        loads_model.VARIANT,
        Variant("llama", heap="llama"),
        Variant("glibc", library=GLIBC),
        Variant("jemalloc", library=GLIBC.parent / "libjemalloc.so.2"),
    ),
    (*BURSTS, _at_once(BURSTS[1]), *COSTS, *loads_table.WORKS),
    rounds=3,
    more=section,
    targets=tuple(Target(ONLINE, COST.key, WITHIN, work=work.case.name, base=OFF) for work in COSTS)
    + tuple(
        Target(name, "mops", 0.9, work=work.case.name, base=OFF)
        for work in BURSTS
        for name in (ONLINE, MODEL)
    ),
)

GROUPS = {LIFETIMES.name: LIFETIMES}
