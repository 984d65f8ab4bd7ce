"""The kinds of heap for many threads that Berger's talk tells apart, as a table of figures and a
picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from strata.plot import STYLE

from strata_bench.groups import Group, Variant, Work
from strata_bench.plan import Case
from strata_bench.results import Results
from strata_bench.two_cpus import HANDOVER, control, control_line, handover_line

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


FASTER = "calls per microsecond"


def draw_kinds(results: Results, path: Path) -> Path:
    """Speed, blow-up and shared lines of each kind, beside each other. The first kind's bars say
    what they are."""
    blow_up = (
        ("in_turn", "eight threads in turn"),
        ("one_way", "one makes, one frees"),
        ("one_way_long", "four times as long"),
    )
    panels = (
        (FASTER, (("mops_1", "1 thread"), ("mops_2", "2 threads")), False),
        ("peak held over peak in use, ×", blow_up, True),
        ("% of cache lines shared by two", (("active", "active"), ("passive", "passive")), False),
    )
    colours = ("#9cc3e2", "#0b6fb8", "#08335c")
    with mpl.rc_context(STYLE):
        figure, all_axes = plt.subplots(1, len(panels), figsize=(11.4, 3.9), sharey=True)
        for axes, (title, bars, log) in zip(all_axes, panels, strict=True):
            height = 0.84 / len(bars)
            for i, (key, name) in enumerate(bars):
                style = next(style for field, _, style in COLUMNS if field == key)
                for row, kind in enumerate(KINDS):
                    value = results.median(KIND_CASE.name, kind, key)
                    if value is None:
                        continue
                    at = row - 0.42 + height * (i + 0.5)
                    axes.barh(at, value, height * 0.92, color=colours[i])
                    text = style.removesuffix(" %").format(value) + (f"  {name}" if not row else "")
                    axes.annotate(
                        text,
                        (max(value, 0.8) if log else value, at),
                        xytext=(3, 0),
                        textcoords="offset points",
                        va="center",
                        fontsize=7.5,
                    )
            if log:
                axes.set_xscale("log")
                axes.set_xlim(0.8, 400)
                axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
            else:
                axes.margins(x=0.32)
                if title.startswith("%"):
                    axes.set_xticks(range(0, 101, 20))
            axes.set_title(title)
            axes.set_xlabel("more is better" if title == FASTER else "less is better")
            axes.tick_params(left=False)
        all_axes[0].set_yticks(range(len(KINDS)), list(KINDS.values()))
        all_axes[0].set_ylim(len(KINDS) - 0.5, -0.5)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
        plt.close(figure)
    return path


def kinds_more(results: Results, images: Path) -> list[str]:
    picture = draw_kinds(results, images / "taxonomy.png")
    return [
        *kinds_table(results),
        *handover_line(results, KINDS),
        *control_line(results, KINDS),
        f"![The kinds of heap](img/{picture.name})",
        "",
    ]


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
    (Work(KIND_CASE, ()), Work(HANDOVER, ()), control(1), control(2)),
    rounds=7,
    tables=False,
    more=kinds_more,
)

GROUPS = {TAXONOMY.name: TAXONOMY}
