"""The pictures, each in a wide and in a narrow layout for phones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from strata.demo.measure import Arm, Run, Sample
from strata.demo.memory import HUGEPAGE, PAGES_PER_HUGEPAGE
from strata.demo.plan import Load
from strata.demo.report import PHASES, SPAN_PAGE, over_rounds, shown
from strata.plot import INK, STYLE, EndLabel, label_ends

# distinguishable with any colour vision
COLOURS = {"glibc": "#8a8f98", "jemalloc": "#d98200", "Strata": "#0b6fb8"}
PALE = "#f0f3f6"
NONE = "#f9d9bd"  # a range without a resident page
FILL = LinearSegmentedColormap.from_list("fill", ["#dcebf7", "#7db6de", "#1f78b4", "#08335c"])
MIB = 1 << 20


@dataclass(frozen=True)
class Picture:
    """One figure as PNG: for desktops and, narrow, for phones."""

    name: str
    wide: bytes
    narrow: bytes


def _draw(name: str, draw: Callable[[bool], Figure]) -> Picture:
    images = []
    with mpl.rc_context(STYLE):
        for narrow in (False, True):
            figure = draw(narrow)
            buffer = BytesIO()
            figure.savefig(buffer, format="png")
            plt.close(figure)
            images.append(buffer.getvalue())
    return Picture(name, *images)


def _timeline(runs: list[Run]) -> dict[str, tuple[float, float]]:
    """Each phase on a common axis, as long as it took on average."""
    spans: dict[str, tuple[float, float]] = {}
    at = 0.0
    for name in runs[0].spans:
        mean = float(np.mean([run.spans[name][1] - run.spans[name][0] for run in runs]))
        spans[name] = (at, at + mean)
        at += mean
    return spans


def _aligned(
    run: Run, spans: dict[str, tuple[float, float]], value: Callable[[Sample], float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A run's samples with each phase stretched to its place on the common axis."""
    ours = [run.spans[name][0] for name in spans] + [list(run.spans.values())[-1][1]]
    theirs = [start for start, _ in spans.values()] + [list(spans.values())[-1][1]]
    times = np.array([sample.at for sample in run.samples])
    inside = (times >= ours[0]) & (times <= ours[-1])
    values = np.array([value(sample) for sample in run.samples])
    return np.interp(times[inside], ours, theirs), values[inside]


def _phase_bands(axes: Axes, spans: dict[str, tuple[float, float]], labels: bool) -> None:
    total = list(spans.values())[-1][1]
    for index, (name, (start, end)) in enumerate(spans.items()):
        if index % 2 == 1:
            axes.axvspan(start, end, color=PALE, zorder=0, linewidth=0)
        if labels:
            upright = (end - start) / total < 0.1
            axes.annotate(
                name,
                ((start + end) / 2, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90 if upright else 0,
                fontsize=8.5,
                color="#52606d",
            )
    axes.set_xlim(0, total)


def memory_over_time(arms: list[Arm], load: Load) -> Picture:
    """RSS and physical memory, phase by phase, a line a round, with the data itself dashed."""
    runs = [run for arm in arms for run in arm.runs]
    spans = _timeline(runs)
    group = "cgroup" if runs[0].in_cgroup else "MemFree"
    live = dict(load.live_bytes)
    live.update(idle=live["delete"], read=live["refill"])
    data = [(0.0, 0.0), *((end, live[name] / MIB) for name, (_, end) in spans.items())]

    def panel(axes: Axes, value: Callable[[Sample], float]) -> list[EndLabel]:
        ends = [EndLabel(data[-1][1], "data", INK)]
        axes.plot(*zip(*data, strict=True), color=INK, lw=1, ls=(0, (3, 2)))
        for arm in arms:
            colour = COLOURS[arm.name]
            last = []
            for run in arm.runs:
                times, values = _aligned(run, spans, value)
                axes.plot(times, values, color=colour, lw=1.2, alpha=0.7)
                last.append(float(values[-1]))
            ends.append(EndLabel(float(np.median(last)), arm.name, colour, "bold"))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#e3e8ee", lw=0.8)
        return ends

    def draw(narrow: bool) -> Figure:
        figure, (top, bottom) = plt.subplots(
            2, 1, sharex=True, figsize=(4.2, 6.4) if narrow else (9.6, 6.4)
        )
        for axes in (top, bottom):
            _phase_bands(axes, spans, labels=axes is top)
        ends = [panel(top, lambda sample: sample.rss / MIB)]
        ends.append(panel(bottom, lambda sample: sample.physical / MIB))
        top.set_title("RSS, MiB", pad=46)
        bottom.set_title(f"Physical memory ({group}), MiB", pad=6)
        bottom.set_xlabel("seconds; each phase as long as it took on average")
        for axes, labels in zip((top, bottom), ends, strict=True):
            label_ends(axes, labels)
        return figure

    return _draw("rss", draw)


def rates(arms: list[Arm]) -> Picture:
    """Requests of each phase, by the clock and by the serving thread's CPU time."""
    panels: list[tuple[str, Callable[[str, Run], float]]] = [
        ("Thousand requests a second", lambda phase, run: run.phases[phase].rate / 1000),
        (
            "Thousand requests a CPU second",
            lambda phase, run: run.phases[phase].requests / run.spent[phase].serving.seconds / 1000,
        ),
    ]

    def bars(axes: Axes, value: Callable[[str, Run], float], named: bool) -> None:
        height = 0.8 / len(arms)
        for index, arm in enumerate(arms):
            places = np.arange(len(PHASES)) + (index - (len(arms) - 1) / 2) * height
            found = [over_rounds(arm, partial(value, key)) for key in PHASES]
            middles = np.array([one.middle for one in found])
            errors = [
                [one.middle - one.low for one in found],
                [one.high - one.middle for one in found],
            ]
            axes.barh(places, middles, height * 0.9, color=COLOURS[arm.name])
            axes.errorbar(middles, places, xerr=errors, fmt="none", ecolor=INK, elinewidth=0.9)
            for row, (place, one) in enumerate(zip(places, found, strict=True)):
                name = f"  {arm.name}" if named and row == 0 else ""
                axes.annotate(
                    f"{one.middle:,.0f}{name}",
                    (one.high, place),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                    color=INK,
                )
        axes.set_yticks(range(len(PHASES)), list(PHASES.values()))
        axes.tick_params(left=False)
        axes.margins(x=0.18)

    def draw(narrow: bool) -> Figure:
        figure, both = plt.subplots(
            *((2, 1) if narrow else (1, 2)),
            figsize=(4.2, 7.6) if narrow else (9.6, 3.8),
            sharey=True,
        )
        for axes, (title, value) in zip(both, panels, strict=True):
            bars(axes, value, named=axes is both[0])
            axes.set_title(title)
        both[0].invert_yaxis()
        return figure

    return _draw("rate", draw)


def _grid(axes: Axes, values: NDArray[np.float64], columns: int, rows: int) -> ScalarMappable:
    """Cells row by row; a value of 0 has its own colour, NaN is no cell."""
    cells = np.full(columns * rows, np.nan)
    cells[: len(values)] = values
    grid = cells.reshape(rows, columns)
    colours = FILL.with_extremes(bad=(0, 0, 0, 0), under=NONE)
    image = axes.pcolormesh(
        np.ma.masked_invalid(grid), cmap=colours, vmin=0.001, vmax=1, edgecolors="white", lw=0.5
    )
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    return image


def _panels(arms: list[Arm]) -> list[tuple[str, list[NDArray[np.float64]]]]:
    """Title and the cells before and after, for each row of the heap picture."""
    panels = []
    for run in map(shown, arms):
        before, after = (run.snapshots[when].occupancy for when in ("filled", "idle"))
        order = sorted({*before, *after})
        both = [
            np.array([seen.get(number, 0) for number in order], float) / PAGES_PER_HUGEPAGE
            for seen in (before, after)
        ]
        panels.append((f"{run.name}: resident", both))
        used = [run.snapshots[when].used for when in ("filled", "idle")]
        if all(pages is not None for pages in used):
            touched = [at for pages in used for at, row in enumerate(pages or []) if any(row)]
            last = max(touched, default=-1)  # the rest is address space that was never used
            cells = [
                np.array([row[0] for row in (pages or [])[: last + 1]], float)
                * SPAN_PAGE
                / HUGEPAGE
                for pages in used
            ]
            panels.append((f"{run.name}: spans in use", cells))
    return panels


def heap(arms: list[Arm]) -> Picture:
    """The heap's hugepages by occupancy before and after the delete."""
    panels = _panels(arms)
    most = max(len(cells) for _, both in panels for cells in both)

    def draw(narrow: bool) -> Figure:
        columns = max(8, round((most * (1.2 if narrow else 3.2)) ** 0.5))
        rows = -(-most // columns)
        size = (4.2, 2.3 * len(panels) + 0.8) if narrow else (9.6, 2.0 * len(panels) + 0.8)
        figure, grid = plt.subplots(len(panels), 2, figsize=size, squeeze=False)
        image = ScalarMappable()
        for line, (title, both) in zip(grid, panels, strict=True):
            for axes, cells, when in zip(line, both, ("filled", "deleted + idle"), strict=True):
                image = _grid(axes, cells, columns, rows)
                axes.set_title(f"{title}\n{when}" if narrow else f"{title}, {when}", fontsize=9.5)
        figure.colorbar(
            image,
            ax=grid,
            location="bottom",
            fraction=0.03,
            aspect=40,
            label="share of the 2 MiB range's pages (orange: none)",
        )
        return figure

    return _draw("heap", draw)
