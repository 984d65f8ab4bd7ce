"""The pictures in docs/benchmarks. Strata and the allocator it is up against have a colour, all
others are grey; what a mark or a line is stands beside it, so that nobody has to match a legend."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from strata.plot import INK, SOFT, STYLE, EndLabel, label_ends

from strata_bench.allocators import PEERS, STRATA
from strata_bench.plan import SPEED
from strata_bench.results import Results
from strata_bench.targets import best_peer

OURS = "#0b6fb8"
RIVAL = "#d98200"
OTHER = "#a9b1ba"
GRID = "#e3e8ee"
MOST_LINES = 5  # in one picture
BASE = "glibc"  # has its line always
KIB = 1024
MIB = 1024  # in KiB, which the results count in


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _key(axes: Axes, words: list[tuple[str, str]]) -> None:
    """One line above the axes, each word in the colour of what it names."""
    at = 0.0
    for text, colour in words:
        written = axes.annotate(
            text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(at, 6),
            textcoords="offset points",
            color=colour,
            fontweight="bold",
            fontsize=9,
        )
        figure = axes.get_figure(root=True)
        assert figure is not None
        at += written.get_window_extent().width * 72 / figure.dpi + 12


def speed(results: Results, path: Path) -> Path | None:
    """A row for each work, a mark for each allocator, relative to the fastest peer."""
    cases = [c for c in SPEED if best_peer(results, c) is not None]
    if not cases:
        return None
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.6, 0.3 * len(cases) + 1.4))
        rivals = []
        for row, case in enumerate(cases):
            peer = best_peer(results, case)
            base = results.median(case.name, peer, case.metric) if peer else None
            rivals.append(peer or "")
            for name in (*PEERS, STRATA):
                value = results.median(case.name, name, case.metric)
                if value is None or not base:
                    continue
                colour = OURS if name == STRATA else RIVAL if name == peer else OTHER
                size, above = (8.0, 3) if colour != OTHER else (5.0, 2)
                axes.plot(value / base, row, "o", color=colour, ms=size, mew=0, zorder=above)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}×")
        axes.set_xlabel("time over the fastest other's; left is faster")
        axes.set_yticks(range(len(cases)), [c.name for c in cases])
        axes.invert_yaxis()
        axes.axvline(1, color=RIVAL, lw=0.8, zorder=1)
        axes.grid(axis="y", color=GRID, lw=0.8)
        axes.tick_params(left=False)
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(range(len(cases)), rivals, color=RIVAL)
        beside.tick_params(right=False)
        beside.spines["right"].set_visible(False)
        words = [("Strata", OURS), ("the fastest other: its name at the right", RIVAL)]
        _key(axes, [*words, ("others", SOFT)])
        return _save(figure, path)


def size_name(count: float) -> str:
    for unit in ("B", "KiB"):
        if count < KIB:
            return f"{count:g} {unit}"
        count /= KIB
    return f"{count:g} MiB"


def _by_size(results: Results, name: str) -> dict[int, float]:
    """Median ns for each size."""
    points: dict[int, list[float]] = {}
    for run in (r for r in results.of("bysize", name) if not r.error):
        for pair in run.fields.get("by_size", "").split(","):
            size, _, ns = pair.partition(":")
            points.setdefault(int(size), []).append(float(ns))
    return {size: statistics.median(points[size]) for size in sorted(points)}


def _band(axes: Axes, lines: list[dict[int, float]], count: int) -> EndLabel:
    """From the fastest to the slowest of several, at each size that all have."""
    places = sorted(set.intersection(*(set(line) for line in lines)))
    low = [min(line[at] for line in lines) for at in places]
    high = [max(line[at] for line in lines) for at in places]
    axes.fill_between(places, low, high, color=OTHER, alpha=0.45, lw=0, zorder=1)
    return EndLabel((low[-1] * high[-1]) ** 0.5, f"{count} others", SOFT)


def sizes(results: Results, path: Path) -> Path | None:
    """ns per malloc and free over the size, both on log scales; the rival is the fastest over all
    sizes by the geometric mean. More others than a picture can have lines are a band."""
    found = {name: _by_size(results, name) for name in (*PEERS, STRATA)}
    found = {name: line for name, line in found.items() if line}
    peers = [name for name in found if name != STRATA]
    if not peers:
        return None
    rival = min(peers, key=lambda name: statistics.geometric_mean(found[name].values()))
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.6, 4.6))
        ends = []
        drawn = [name for name in found if name in (STRATA, rival, BASE)]
        rest = [name for name in found if name not in drawn]
        if len(found) > MOST_LINES:
            ends.append(_band(axes, [found[name] for name in rest], len(rest)))
            rest = []
        for name in (*rest, *drawn):
            line = found[name]
            colour = OURS if name == STRATA else RIVAL if name == rival else OTHER
            bold = colour != OTHER
            width, above = (2.2, 3) if bold else (1.1, 2)
            axes.plot(list(line), list(line.values()), color=colour, lw=width, zorder=above)
            text = "Strata" if name == STRATA else name
            last = line[max(line)]
            ends.append(
                EndLabel(last, text, colour if bold else SOFT, "bold" if bold else "normal")
            )
        every = sorted({size for line in found.values() for size in line})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlim(every[0], every[-1])
        axes.xaxis.set_major_formatter(lambda x, _: size_name(x))
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:,g}")
        axes.set_title("ns for a malloc and a free, by the size of the block")
        axes.grid(axis="y", color=GRID, lw=0.8)
        label_ends(axes, ends)
        return _save(figure, path)


def _burst_panel(axes: Axes, results: Results, case: str) -> bool:
    """A bar for each allocator, the least on top; beside ours the next best has a colour."""
    held: dict[str, float] = {}
    for name in (STRATA, *PEERS):
        value = results.median(case, name, "rss_kib")
        if value is not None:
            held[name] = value / MIB
    ours = [r for r in results.of(case, STRATA) if not r.error]
    if not held or not ours:
        return False
    order = sorted(held, key=lambda name: held[name])
    rival = next((name for name in order if name != STRATA), STRATA)
    for row, name in enumerate(order):
        colour = OURS if name == STRATA else RIVAL if name == rival else OTHER
        axes.barh(row, held[name], 0.72, color=colour)
        axes.annotate(
            f"{held[name]:,.0f}",
            (held[name], row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.set_yticks(range(len(order)), ["Strata" if n == STRATA else n for n in order])
    axes.set_ylim(len(order) + 0.2, -0.6)  # room below the bars for what the line is
    at = float(ours[0].fields["live_kib"]) / MIB
    axes.axvline(at, color=INK, lw=0.9, ls=(0, (3, 2)))
    axes.annotate(
        f"in use: {at:,.0f}",
        (at, len(order) - 0.15),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
        color=INK,
    )
    axes.tick_params(left=False)
    axes.margins(x=0.16)
    return True


def burst(results: Results, path: Path) -> Path | None:
    """RSS at the end of the idle time after 95 % of a gigabyte was freed."""
    titles = {"burst-oldest": "the oldest", "burst-random": "a random"}
    with mpl.rc_context(STYLE):
        figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.9))
        drawn = []
        for axes, (case, title) in zip(panels, titles.items(), strict=True):
            drawn.append(_burst_panel(axes, results, case))
            axes.set_title(f"MiB held, {title} 95 % freed")
        if not all(drawn):
            plt.close(figure)
            return None
        return _save(figure, path)


def memory_of_loops(panels: dict[str, dict[str, list[tuple[float, float]]]], path: Path) -> Path:
    """RSS over time, for each server and variant, while one request allocates and frees."""
    names = {"stock": "own pools, glibc", "strata": "own pools, Strata", "reaps": "reaps"}
    # Dashed and on top where it lies on another line.
    styles = {"stock": (SOFT, (0, (3, 2)), 4), "strata": (RIVAL, "-", 3), "reaps": (OURS, "-", 3)}
    with mpl.rc_context(STYLE):
        figure, row = plt.subplots(1, len(panels), figsize=(10.4, 3.6), sharey=True)
        longest = max(s[-1][0] for lines in panels.values() for s in lines.values())
        for axes, (server, lines) in zip(row, panels.items(), strict=True):
            ends = []
            for variant, series in lines.items():
                colour, dashes, above = styles.get(variant, (OTHER, "-", 2))
                axes.plot(*zip(*series, strict=True), color=colour, ls=dashes, lw=2, zorder=above)
                ends.append(EndLabel(series[-1][1], names.get(variant, variant), colour))
            axes.set_title(f"{server}: RSS of the worker, MiB")
            axes.set_xlabel("seconds")
            axes.set_xlim(0, longest)
            axes.set_ylim(bottom=-8)
            axes.grid(axis="y", color=GRID, lw=0.8)
            label_ends(axes, ends)
        return _save(figure, path)


def draw(results: Results, directory: Path) -> dict[str, Path]:
    found = {
        "speed": speed(results, directory / "speed.png"),
        "sizes": sizes(results, directory / "sizes.png"),
        "burst": burst(results, directory / "burst.png"),
    }
    return {key: path for key, path in found.items() if path is not None}
