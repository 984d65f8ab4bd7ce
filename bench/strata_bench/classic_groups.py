"""The group of the classic heaps: allocation-heavy programs written here, and traces recorded from
real ones, on Lea's heap and Kingsley's against glibc."""

from __future__ import annotations

from pathlib import Path

from strata_bench.allocators import GLIBC
from strata_bench.groups import Figure, Group, Target, Variant, Work, ratio
from strata_bench.plan import Case, Kind
from strata_bench.results import Results, geometric_mean

SECONDS = Figure("seconds", "time", False)
CALLS = Figure("call_seconds", "time of malloc and free", False)
PEAK = Figure("hwm_kib", "peak RSS", False)
LEA, KINGSLEY = 1.10, round(1 / 1.2, 3)  # the most, times glibc
# What perf found in malloc and free on glibc once, in %, not in each run of the group. The target
# is for programs in which an allocator can do something about it.
IN_MALLOC = {"cfrac": 24, "espresso": 23, "parser": 30, "barnes": 1}
IN_MALLOC_FOUND = "`perf record -e cycles:u` on an AMD EPYC with 2 cores, glibc 2.36, on 2026-11-22"
LEAST_IN_MALLOC = 5


def _program(name: str, *args: str) -> Work:
    return Work(Case(name, f"classic-{name}", args, "seconds", timeout=300), (SECONDS, PEAK))


def _trace(name: str) -> Work:
    case = Case(f"trace-{name}", name, (), "seconds", kind=Kind.TRACE)
    return Work(case, (SECONDS, CALLS, PEAK))


PROGRAMS = (
    _program("cfrac", "--rounds=60"),
    _program("espresso", "--functions=800"),
    _program("parser", "--programs=120"),
    _program("barnes", "--steps=8"),
)
TRACES = tuple(_trace(name) for name in ("documents", "tables", "words", "compile"))
LABELS = {
    "documents": "Python, JSON documents, every object a block",
    "tables": "SQLite, tables in memory",
    "words": "Perl, hashes of words",
    "compile": "g++'s cc1plus, the standard library's templates",
}


def _mean(results: Results, variant: str, works: tuple[Work, ...]) -> str:
    found = [ratio(results, work, SECONDS, variant, "glibc") for work in works]
    mean = geometric_mean([one.ratio for one in found if one is not None])
    return "–" if mean is None or None in found else f"{mean:.3f}"


def more(results: Results, _images: Path) -> list[str]:
    """What the replays are made of, and the means over the works."""
    lines = [
        "| trace | recorded from | calls | the replayer alone | replay on glibc |",
        "|---|---|---:|---:|---:|",
    ]
    for work in TRACES:
        keys = ("events", "overhead_seconds", "seconds")
        values = [results.median(work.case.name, "glibc", key) for key in keys]
        if None in values:
            continue
        calls, alone, whole = (value or 0 for value in values)
        lines.append(
            f"| {work.case.name} | {LABELS[work.case.program]} | {calls:,.0f} |"
            f" {alone * 1000:.1f} ms | {whole * 1000:.1f} ms |"
        )
    busy = tuple(w for w in PROGRAMS if IN_MALLOC[w.case.name] >= LEAST_IN_MALLOC)
    shares = ", ".join(f"{name} {share} %" for name, share in IN_MALLOC.items())
    lines += [
        "",
        "How much of the programs' cycles is malloc and free on glibc, not measured in this run"
        f" but with {IN_MALLOC_FOUND}: {shares}. Geometric means of the time × glibc:",
        "",
        "| | lea | kingsley |",
        "|---|---:|---:|",
    ]
    for label, works in (
        (f"the programs with at least {LEAST_IN_MALLOC} % in malloc", busy),
        ("all four programs", PROGRAMS),
        ("the replays", TRACES),
    ):
        means = " | ".join(_mean(results, name, works) for name in ("lea", "kingsley"))
        lines.append(f"| {label} | {means} |")
    return [*lines, ""]


def _targets(work: Work) -> tuple[Target, ...]:
    """Of a replay, Lea is held to the time without the replayer's own, Kingsley to the whole."""
    time = CALLS if work.case.kind is Kind.TRACE else SECONDS
    return (
        Target("lea", time.key, LEA, work.case.name),
        Target("lea", PEAK.key, LEA, work.case.name),
        Target("kingsley", SECONDS.key, KINGSLEY, work.case.name),
    )


HEAPS = Group(
    "heaps",
    "The classic heaps, built from layers",
    "Four programs of the kind that allocators have been compared with since the 1990s, each with"
    " one thread: `cfrac` factors numbers by continued fractions, every number a block; `espresso`"
    " minimizes logic; `parser` builds trees, folds and frees them; `barnes` builds an octree anew"
    " in each step, and computes for most of the time. And the calls of four real programs,"
    " recorded with `strata trace` before the start and made again by `strata-replay`, which writes"
    " to each page of a block: `time` is the whole replay's, `time of malloc and free` is without"
    " what the replayer takes for the same steps with functions that do nothing. Lea is held"
    " to the time of malloc and free, Kingsley to that of the whole replay; the table has both for"
    " each. `docs/heaps.md` says what the heaps are.",
    (
        Variant("glibc", library=GLIBC),
        Variant("lea", heap="lea"),
        Variant("kingsley", heap="kingsley"),
        Variant("hoard", heap="hoard"),
        Variant("strata"),
    ),
    (*PROGRAMS, *TRACES),
    rounds=12,
    targets=tuple(target for work in (*PROGRAMS, *TRACES) for target in _targets(work)),
    more=more,
)

GROUPS = {HEAPS.name: HEAPS}
