"""Two groups about Hoard: the kinds of heap for many threads that Berger's talk tells apart, as a
table of figures and a picture, and Hoard against glibc on the programs of Hoard's paper."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from strata_bench.allocators import GLIBC
from strata_bench.groups import Figure, Group, Target, Variant, Work
from strata_bench.plan import Case
from strata_bench.results import Results

KINDS = {
    "serial": "serial single heap",
    "concurrent": "concurrent single heap",
    "private": "pure private heaps",
    "owners": "private with ownership",
    "hoard": "private with thresholds (Hoard)",
}
KIND_CASE = Case("kinds", "taxonomy", (), "mops_2", quick=("--seconds=0.05", "--length=0.1"))
# Field, heading, and how a value is written.
COLUMNS = (
    ("mops_1", "1 thread, calls/µs", "{:.0f}"),
    ("mops_2", "2 threads", "{:.0f}"),
    ("speedup", "speed-up", "{:.2f}"),
    ("in_turn", "blow-up, 8 in turn", "{:.2f}"),
    ("one_way", "blow-up, 1 to 1", "{:.2f}"),
    ("one_way_long", "four times as long", "{:.2f}"),
    ("active", "lines shared, active", "{:.0f} %"),
    ("passive", "passive", "{:.0f} %"),
)
PROGRAMS = ("threadtest", "larson", "cache-thrash", "cache-scratch")


def kinds_table(results: Results) -> list[str]:
    """A row for each kind, a column for each figure: medians."""
    lines = [
        "| kind of heap | " + " | ".join(heading for _, heading, _ in COLUMNS) + " |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    for kind, name in KINDS.items():
        cells = []
        for key, _, style in COLUMNS:
            value = results.median(KIND_CASE.name, kind, key)
            cells.append("–" if value is None else style.format(value))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def draw_kinds(results: Results, path: Path) -> Path:
    """Speed, blow-up and shared lines of each kind, beside each other."""
    panels = (
        ("calls/µs", (("mops_1", "1 thread"), ("mops_2", "2 threads")), False),
        (
            "held / most in use",
            (
                ("in_turn", "8 threads in turn"),
                ("one_way", "one to another"),
                ("one_way_long", "the same, four times as long"),
            ),
            True,
        ),
        ("% of lines shared", (("active", "active"), ("passive", "passive")), False),
    )
    figure, all_axes = plt.subplots(1, len(panels), figsize=(12, 3.2), sharey=True)
    rows = range(len(KINDS))
    for axes, (label, bars, log) in zip(all_axes, panels, strict=True):
        height = 0.8 / len(bars)
        for i, (key, name) in enumerate(bars):
            values = [results.median(KIND_CASE.name, kind, key) or 0 for kind in KINDS]
            at = [row - 0.4 + height * (i + 0.5) for row in rows]
            axes.barh(at, values, height * 0.9, label=name)
        if log:
            axes.set_xscale("log")
        axes.set_xlabel(label)
        axes.grid(alpha=0.25, axis="x")
        axes.legend(fontsize=7)
    all_axes[0].set_yticks(list(rows), list(KINDS.values()))
    all_axes[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return path


def kinds_more(results: Results, images: Path) -> list[str]:
    picture = draw_kinds(results, images / "taxonomy.png")
    return [*kinds_table(results), f"![The kinds of heap](img/{picture.name})", ""]


def speed_ups(results: Results, _images: Path) -> list[str]:
    """How much faster two threads are than one, of each variant."""
    names = ["glibc", "hoard", "strata"]
    lines = [
        "| speed-up of two threads | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
    ]
    for program in PROGRAMS:
        cells = []
        for name in names:
            one = results.median(f"{program}-t1", name, "mops")
            two = results.median(f"{program}-t2", name, "mops")
            cells.append("–" if one is None or two is None else f"{two / one:.2f}")
        lines.append(f"| {program} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _work(program: str, threads: int) -> Work:
    slow = program.startswith("cache-")
    args = ("--iterations=300",) if slow else ("--seconds=0.5",)
    case = Case(f"{program}-t{threads}", program, (*args, f"--threads={threads}"), "mops")
    unit = "writes" if slow else "calls"
    return Work(case, (Figure("mops", f"{unit} / µs", True), Figure("hwm_kib", "peak RSS", False)))


TAXONOMY = Group(
    "taxonomy",
    "Kinds of heaps for many threads",
    "Berger's taxonomy, measured: five heaps composed from the layers of `include/strata/layers`"
    " (`bench/programs/taxonomy.cpp`). Speed is threadtest's. Blow-up is the most memory held by"
    " the most in use at once: when eight threads in turn take and free the same amount, and when"
    " one thread allocates a million, then four million objects that another frees, 40,000 at a"
    " time on their way. Shared lines are cache lines with objects of both of two threads, of all"
    " that hold any: when they allocate by turns (active), and when they free what a third gave"
    " them by turns and allocate again (passive).",
    tuple(Variant(kind, {"HEAP_KIND": kind}) for kind in KINDS),
    (Work(KIND_CASE, ()),),
    rounds=7,
    tables=False,
    more=kinds_more,
)

HOARD = Group(
    "hoard",
    "Hoard on the programs of its paper",
    "`libstrata-hoard.so` against glibc, and Strata's own heap beside them. In `cache-thrash` and"
    " `cache-scratch` almost all time goes into writes to objects of one byte: two threads are"
    " twice as fast as one only if no two of their objects lie in one cache line.",
    (Variant("glibc", library=GLIBC), Variant("hoard", heap="hoard"), Variant("strata")),
    tuple(_work(program, threads) for program in PROGRAMS for threads in (1, 2)),
    rounds=9,
    targets=tuple(
        Target("hoard", "mops", 1.0, f"{program}-t{threads}")
        for program in ("threadtest", "larson")
        for threads in (1, 2)
    ),
    more=speed_ups,
)

GROUPS = {group.name: group for group in (TAXONOMY, HOARD)}
