"""The report's charts: matplotlib's SVG, inlined, in the page's colours.

Each chart is drawn twice, wide and narrow, and the page shows the one that fits. Colours are
written as tokens that become CSS variables, so that one drawing serves light and dark. Only our own
words and numbers go in here, never a name from the program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from html import escape
from io import StringIO

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator

from strata.plot import INK, SOFT, STYLE, EndLabel, label_ends
from strata.stats import human

# A colour for each token; no two are equal, because the page tells them apart by value. The
# series are Okabe and Ito's, distinguishable with any colour vision.
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98", "#b9a800")
EDGE, GRID, CARD = "#b8c1cc", "#e3e8ee", "#fefefe"
TOKENS = {
    INK: "ink",
    SOFT: "soft",
    EDGE: "edge",
    GRID: "grid",
    CARD: "card",
    **{colour: f"c{number}" for number, colour in enumerate(SERIES)},
}
LIFE = ("#08335c", "#0b5394", "#2f7fc1", "#6aa9dc", "#a9cdec", "#d3e3f1", "#e6a04a")
TOKENS.update({colour: f"life{number}" for number, colour in enumerate(LIFE)})
WIDE, NARROW = 9.4, 4.2  # inches

Draw = Callable[[bool], Figure]


def chart(name: str, label: str, draw: Draw) -> str:
    """Both drawings as HTML; `label` says in words what a picture shows."""
    parts = []
    style = STYLE | {"svg.fonttype": "none", "svg.hashsalt": name, "text.parse_math": False}
    with mpl.rc_context(style):
        for narrow in (False, True):
            figure = draw(narrow)
            text = StringIO()
            figure.savefig(text, format="svg", transparent=True)
            plt.close(figure)
            kind = "narrow" if narrow else "wide"
            parts.append(inline(text.getvalue(), f"{name}-{kind}", label, kind))
    return "".join(parts)


def inline(svg: str, prefix: str, label: str, kind: str) -> str:
    """A drawing made fit to stand inside a page: own ids, CSS colours, a name for readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'(xlink:)?href="#([^"]+)"', rf'href="#{prefix}-\2"', svg)
    for colour, token in TOKENS.items():
        svg = svg.replace(colour, f"var(--{token})")
    svg = svg.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    return svg.replace("<svg", f'<svg class="{kind}" role="img" aria-label="{escape(label)}"', 1)


def subplots(narrow: bool, wide_height: float, narrow_height: float) -> tuple[Figure, Axes]:
    size = (NARROW, narrow_height) if narrow else (WIDE, wide_height)
    figure, axes = plt.subplots(figsize=size)
    return figure, axes


def legend(figure: Figure, narrow: bool, columns: int = 4) -> None:
    figure.legend(loc="outside lower center", ncols=2 if narrow else columns, fontsize=8.5)


def as_bytes(axis: Axis, most: float, ticks: int = 5) -> None:
    """Marks a linear axis of bytes at round numbers of a binary unit."""
    unit = 1024.0 ** max(0, int(math.log(max(most, 1), 1024)))
    steps = (s * 10**power for power in range(4) for s in (1, 2, 5))
    step = next((s for s in steps if most / (s * unit) <= ticks), 10_000) * unit
    if most < 2 * unit and unit > 1:
        step = unit / 4
    axis.set_major_locator(MultipleLocator(step))
    axis.set_major_formatter(FuncFormatter(lambda value, _: mark(value)))


def mark(value: float) -> str:
    """A byte count for an axis: 64 KiB, not 64.0 KiB."""
    number, _, unit = human(value).partition(" ")
    return f"{float(number):g} {unit}"


def stacked_bar(label: str, name: str, parts: Sequence[tuple[str, int]]) -> str:
    """One horizontal bar, divided into named parts of a whole, in bytes."""

    def draw(narrow: bool) -> Figure:
        figure, axes = subplots(narrow, 1.7, 2.3)
        left = 0
        for (part, value), colour in zip(parts, SERIES, strict=False):
            axes.barh(
                [0],
                [value],
                left=left,
                color=colour,
                edgecolor=CARD,
                label=f"{part} {human(value)}",
            )
            left += value
        axes.set_yticks([])
        axes.set_xlim(0, max(left, 1))
        as_bytes(axes.xaxis, left, 3 if narrow else 8)
        axes.spines["left"].set_visible(False)
        legend(figure, narrow)
        return figure

    return chart(name, label, draw)


def tier_bars(
    name: str, label: str, rows: Sequence[tuple[str, float, float | None]], study: str, of: str
) -> str:
    """A bar for each tier: (name, ours, the study's or None), in per cent of `of`; `study` is the
    number of its figure."""

    def draw(narrow: bool) -> Figure:
        figure, axes = subplots(narrow, 2.6, 3.2)
        places = list(range(len(rows)))
        ours = axes.barh(
            [p - 0.2 for p in places],
            [row[1] for row in rows],
            0.38,
            color=SERIES[0],
            label="this process",
        )
        theirs = axes.barh(
            [p + 0.2 for p in places],
            [row[2] or 0 for row in rows],
            0.38,
            color=SERIES[6],
            label=f"Google's fleet ({study} of the study)",
        )
        for bars, column in ((ours, 1), (theirs, 2)):
            values = [row[column] for row in rows]
            texts = ["" if value is None else f"{value:.0f} %" for value in values]
            axes.bar_label(bars, texts, padding=3, fontsize=8.5)
        axes.set_yticks(places, [row[0] for row in rows])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel(f"per cent of {of}")
        axes.tick_params(left=False)
        legend(figure, narrow)
        return figure

    return chart(name, label, draw)


def label_steps(axes: Axes, curves: Sequence[tuple[list[float], list[float], str, str]]) -> None:
    """Names two step curves over the same places where they are farthest apart: the upper one
    above its line, the lower one below."""
    (xs, first, *_), (_, second, *_) = curves
    apart = max(range(len(xs)), key=lambda at: abs(first[at] - second[at]))
    upper = int(second[apart] > first[apart])
    right = apart > 0.6 * len(xs)  # from there on a name may not fit before the edge
    for at, (_, ys, name, colour) in enumerate(curves):
        axes.annotate(
            name,
            (xs[apart], ys[apart]),
            xytext=(-5 if right else 5, 4 if at == upper else -4),
            textcoords="offset points",
            ha="right" if right else "left",
            va="bottom" if at == upper else "top",
            fontsize=9,
            color=colour,
        )


def size_curves(
    label: str, sizes: Sequence[int], count: Sequence[float], held: Sequence[float]
) -> str:
    """Cumulative shares of objects and of bytes against object size."""

    def draw(narrow: bool) -> Figure:
        figure, axes = subplots(narrow, 3.2, 3.4)
        curves: list[tuple[list[float], list[float], str, str]] = []
        for values, name, colour in (
            (count, "objects", SERIES[0]),
            (held, "bytes", SERIES[1]),
        ):
            xs = [sizes[0] / 2, *sizes]
            ys = [0, *(100 * v for v in values)]
            axes.step(xs, ys, where="post", lw=2, color=colour)
            curves.append((xs, ys, name, colour))
        axes.set_xscale("log", base=2)
        low, high = sizes[0] / 2, max(sizes[-1] * 1.5, 64)
        axes.set_xlim(low, high)
        powers = [p for p in range(63) if low <= 1 << p <= high]
        ticks = [1 << p for p in powers[:: max(1, len(powers) // (4 if narrow else 8))]]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: mark(value)))
        axes.set_ylim(0, 112)
        axes.set_yticks(range(0, 101, 20))
        axes.set_title("Per cent of all that is at most this large")
        axes.set_xlabel("object size")
        axes.grid(axis="y", color=GRID, lw=0.8)
        label_steps(axes, curves)
        return figure

    return chart("sizes", label, draw)


def lifetime_bars(
    label: str, bins: Sequence[str], names: Sequence[str], shares: Sequence[Sequence[float]]
) -> str:
    """Stacked shares of lifetimes, a bar for each range of sizes."""

    def draw(narrow: bool) -> Figure:
        figure, axes = subplots(narrow, 3.4, 4.0)
        left = [0.0] * len(bins)
        for number, name in enumerate(names):
            values = [100 * row[number] for row in shares]
            axes.barh(
                list(range(len(bins))), values, 0.75, left=left, color=LIFE[number], label=name
            )
            left = [a + b for a, b in zip(left, values, strict=True)]
        axes.set_yticks(list(range(len(bins))), list(bins))
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("per cent of the sampled objects")
        axes.tick_params(left=False)
        legend(figure, narrow, 7)
        return figure

    return chart("lifetimes", label, draw)


def miss_bars(label: str, rows: Sequence[tuple[int, float, float, int, int]]) -> str:
    """For each vCPU: (number, misses of malloc, of free, bytes used, capacity)."""

    def draw(narrow: bool) -> Figure:
        size = (NARROW, 4.6) if narrow else (WIDE, 2.9)
        figure, grid = plt.subplots(*((2, 1) if narrow else (1, 2)), figsize=size)
        first, second = grid
        numbers = list(range(len(rows)))
        mallocs = [row[1] for row in rows]
        first.bar(numbers, mallocs, color=SERIES[0], label="cache empty")
        first.bar(
            numbers, [r[2] for r in rows], bottom=mallocs, color=SERIES[1], label="cache full"
        )
        first.set_title("Misses")
        first.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        first.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        second.bar(numbers, [r[4] for r in rows], color=GRID, edgecolor=EDGE, label="capacity")
        second.bar(numbers, [r[3] for r in rows], 0.5, color=SERIES[2], label="used")
        second.set_title("What the cache holds")
        as_bytes(second.yaxis, max(1, *(max(r[3], r[4]) for r in rows)))
        step = max(1, len(rows) // (8 if narrow else 16))
        for axes in (first, second):
            axes.set_xticks(numbers[::step], [str(row[0]) for row in rows][::step])
            axes.set_xlabel("vCPU")
        legend(figure, narrow)
        return figure

    return chart("misses", label, draw)


def rate_bars(label: str, names: Sequence[str], rates: Sequence[float | None]) -> str:
    """Span return rate for each range of live objects; None: no such span was seen."""

    def draw(narrow: bool) -> Figure:
        figure, axes = subplots(narrow, 2.6, 2.9)
        places = list(range(len(names)))
        bars = axes.bar(places, [100 * (rate or 0) for rate in rates], color=SERIES[0])
        texts = ["none\nseen" if rate is None else f"{100 * rate:.0f} %" for rate in rates]
        axes.bar_label(bars, texts, padding=2, fontsize=8)
        axes.set_xticks(places, list(names), fontsize=7.5 if narrow else 10)
        axes.set_ylim(0, max(5.0, 118 * max((rate or 0) for rate in rates)))
        axes.set_xlabel("live objects on the span")
        axes.set_title("Per cent given back before the next look")
        return figure

    return chart("return-live", label, draw)


def rate_points(label: str, rows: Sequence[tuple[int, float, int]]) -> str:
    """Span return rate against capacity: (objects a span holds, rate, spans)."""

    def draw(narrow: bool) -> Figure:
        figure, axes = subplots(narrow, 2.9, 3.2)
        most = max(row[2] for row in rows)
        axes.scatter(
            [row[0] for row in rows],
            [100 * row[1] for row in rows],
            s=[20 + 160 * (row[2] / most) ** 0.5 for row in rows],
            color=SERIES[0],
            alpha=0.65,
            linewidths=0,
        )
        axes.set_xscale("log", base=2)
        ticks = [1 << p for p in range(0, 12, 2)]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
        axes.set_ylim(bottom=-4)
        axes.set_xlabel("objects that a span holds")
        axes.set_title("Per cent of the spans given back")
        axes.grid(axis="y", color=GRID, lw=0.8)
        return figure

    return chart("return-capacity", label, draw)


def coverage_lines(
    label: str,
    times: Sequence[float],
    percents: Sequence[float],
    held: Sequence[int],
    huge: Sequence[int],
) -> str:
    """Coverage, and the two amounts it is made of, over time."""

    def draw(narrow: bool) -> Figure:
        size = (NARROW, 4.6) if narrow else (WIDE, 2.9)
        figure, grid = plt.subplots(*((2, 1) if narrow else (1, 2)), figsize=size)
        first, second = grid
        marker = "o" if len(times) < 3 else None
        first.plot(times, percents, lw=2, marker=marker, color=SERIES[0])
        first.set_ylim(0, 102)
        first.set_title("Heap on hugepages, per cent")
        second.plot(times, held, lw=2, marker=marker, color=SERIES[6])
        second.plot(times, huge, lw=2, marker=marker, color=SERIES[2])
        second.set_ylim(0, max(1, *held, *huge) * 1.08)
        second.set_title("Heap in memory")
        as_bytes(second.yaxis, max(1, *held, *huge))
        for axes in (first, second):
            axes.set_xlim(0, max(1.0, times[-1]))
            axes.set_xlabel("seconds")
            axes.grid(axis="y", color=GRID, lw=0.8)
        label_ends(
            second,
            [EndLabel(held[-1], "all", SERIES[6]), EndLabel(huge[-1], "on hugepages", SERIES[2])],
        )
        return figure

    return chart("coverage", label, draw)
