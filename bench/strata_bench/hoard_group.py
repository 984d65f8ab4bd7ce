"""Hoard on the programs of its paper, against glibc and other allocators: speed, speed-up beside
what the machine gives to threads that share nothing, fragmentation, and what was published."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from strata_bench.allocators import DEBIAN, GLIBC
from strata_bench.groups import Figure, Group, Target, Variant, Work, ratio
from strata_bench.plan import Case
from strata_bench.results import Results
from strata_bench.two_cpus import CONTROL, HANDOVER, control, handover_line, speed_ups

PROGRAMS = ("threadtest", "larson", "cache-thrash", "cache-scratch")
HEAP, BASE = "hoard", "glibc"
LINEAR = 0.9  # of the cores there are
# Larson on 192 cores, M objects/s: Hoard 1823, glibc 1488 (Hoard's pull request 94).
LARSON_PUBLISHED = round(1823 / 1488, 2)
# What was published of machines with more processors: program, claim, processors.
SCALED = (
    ("threadtest", "threadtest 278 % faster than Ptmalloc, on 14 processors (paper)", 14),
    ("larson", "Larson up to 18 × the next best, on 14 (paper)", 14),
    (
        "larson",
        f"Larson {LARSON_PUBLISHED} × glibc, on 192 cores (pull request 94 of Hoard's repository;"
        " 95 and 96 report another order on another machine)",
        192,
    ),
)
FRAGMENTATION = Case("fragmentation", "fragmentation", (), "threadtest", quick=("--length=0.1",))
# Field, what it is, and what the paper's table of fragmentation says of it.
FRAGMENTATIONS = (
    ("threadtest", "threadtest, 100,000 objects of 8 bytes", ""),
    ("threadtest_16", "the same with 16 bytes, the least block", "1.24"),
    ("threadtest_64", "the same with 64 bytes", ""),
    ("larson", "Larson, 10,000 objects of 10 to 100 bytes a thread", ""),
    ("larson_70k", "the same with 70,000, in all as many as the paper's 14 threads have", "1.22"),
    ("larson_100k", "the same with 100,000", ""),
    ("threadtest_16_small", "superblocks of 8 KiB, the paper's: threadtest, 16 bytes", ""),
    ("larson_small", "superblocks of 8 KiB, f a quarter: Larson, 10,000 objects a thread", ""),
    ("larson_small_70k", "the same with 70,000", ""),
)


def _work(program: str, threads: int) -> Work:
    slow = program.startswith("cache-")
    length = "--iterations=250" if slow else "--seconds=0.3"
    case = Case(f"{program}-t{threads}", program, (length, f"--threads={threads}"), "mops")
    unit = "writes" if slow else "calls"
    rate = Figure("mops", f"{unit} / µs", True)
    return Work(case, (rate,) if slow else (rate, Figure("hwm_kib", "peak RSS", False)))


def _names(results: Results) -> list[str]:
    return [v.name for v in HOARD.variants if v.name in results.allocators(f"{PROGRAMS[0]}-t1")]


def speed_up_table(results: Results) -> list[str]:
    """Medians, and the best round, in which the machine was at its best."""
    names = _names(results)
    lines = [
        "| two threads over one, median (best round) | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
    ]
    for program in (CONTROL, *PROGRAMS):
        cells = []
        for name in names:
            found = speed_ups(results, program, name)
            middle = statistics.median(found) if found else 0
            cells.append(f"{middle:.2f} ({max(found):.2f})" if found else "–")
        what = f"{CONTROL}: nothing shared" if program == CONTROL else program
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def fragmentation_table(results: Results) -> list[str]:
    lines = [
        "| most held / most in use, two threads, libstrata-hoard's heap over a source that counts,"
        " without what the page heap keeps | here | published |",
        "|---|---:|---:|",
    ]
    for key, what, published in FRAGMENTATIONS:
        value = results.median(FRAGMENTATION.name, HEAP, key)
        lines.append(f"| {what} | {'–' if value is None else f'{value:.2f}'} | {published} |")
    return [*lines, ""]


def _claims(results: Results) -> Iterator[tuple[str, str, str]]:
    """What was published, what that is here, and what follows."""

    def against(case: str) -> float | None:
        work = next(w for w in HOARD.works if w.case.name == case)
        found = ratio(results, work, work.figures[0], HEAP, BASE)
        return found.ratio if found else None

    def verdict(met: bool) -> str:
        return "met" if met else "**missed**"

    for program, published, cores in SCALED:
        two = against(f"{program}-t2")
        if two is not None:
            yield (
                published,
                f"{two:.2f} × glibc on 2",
                f"needs {cores}: not testable here; on 2 "
                + ("not slower" if two >= 1 else "**slower**"),
            )
    singles = [against(f"{program}-t1") for program in PROGRAMS[:2]]
    ones = [one for one in singles if one is not None]
    if len(ones) == len(singles):
        yield (
            "one processor: 6.2 % slower than the system's malloc on average (paper)",
            f"one thread: {min(ones):.2f} × glibc at least; see also `hoard` among the"
            " [classic heaps](heaps.md)",
            verdict(min(ones) >= 1 / 1.062),
        )
    for program in PROGRAMS:
        own = speed_ups(results, program, HEAP)
        ceiling = speed_ups(results, CONTROL, HEAP)
        if own and ceiling:
            share = statistics.median(own) / statistics.median(ceiling)
            yield (
                f"{program}: speed-up is linear (paper: near-linear)",
                f"{statistics.median(own):.2f}, {share * 100:.0f} % of what threads get that share"
                " nothing",
                f"at least {LINEAR:.0%} of 2: ".replace("%", " %")
                + verdict(statistics.median(own) >= 2 * LINEAR),
            )
    loads = {"threadtest_16": "threadtest with 8 bytes", "larson_70k": "Larson"}
    for key, what, published in FRAGMENTATIONS:
        value = results.median(FRAGMENTATION.name, HEAP, key)
        if published and value is not None:
            yield (
                f"fragmentation {published} on {loads[key]} (paper)",
                f"{value:.2f} on {what.replace('the same with', loads[key].split()[0] + ' with')}",
                verdict(value <= float(published)),
            )


def more(results: Results, _images: Path) -> list[str]:
    lines = [
        *speed_up_table(results),
        *handover_line(results, _names(results)),
        *fragmentation_table(results),
        "| published of Hoard | here | verdict |",
        "|---|---|---|",
    ]
    return [*lines, *("| " + " | ".join(claim) + " |" for claim in _claims(results)), ""]


HOARD = Group(
    "hoard",
    "Hoard on the programs of its paper",
    "`libstrata-hoard.so` against glibc, Strata's own heap and Debian's packages of other"
    " allocators. `alone` is the ceiling of speed-ups: threadtest's loop over lists that threads"
    " do not share, so a speed-up is read beside it. In `cache-thrash` and `cache-scratch` almost"
    " all time goes into writes to objects of one byte: two threads are twice as fast as one only"
    " if no two of their objects lie in one cache line. Larson's parameters are those of Hoard's"
    " pull request (8 to 1,000 bytes, 5,000 objects a thread). Hoard itself is in no registry that"
    " we can reach, so what was published of it is held against glibc here.",
    (
        Variant(BASE, library=GLIBC),
        Variant(HEAP, heap="hoard"),
        Variant("strata"),
        Variant("jemalloc", library=DEBIAN / "libjemalloc.so.2"),
        Variant("mimalloc", library=DEBIAN / "libmimalloc.so.2"),
        Variant("tcmalloc", library=DEBIAN / "libtcmalloc_minimal.so.4"),
    ),
    (
        Work(FRAGMENTATION, (), only=(HEAP,)),
        Work(HANDOVER, ()),
        *(control(threads) for threads in (1, 2)),
        *(_work(program, threads) for program in PROGRAMS for threads in (1, 2)),
    ),
    rounds=9,
    targets=tuple(
        Target(HEAP, "mops", 1.0, f"{program}-t{threads}")
        for program in PROGRAMS[:2]
        for threads in (1, 2)
    ),
    more=more,
)

GROUPS = {HOARD.name: HOARD}
