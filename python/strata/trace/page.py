"""The result of a replay as a page that loads nothing from elsewhere, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

from strata.files import make_folder, write_file
from strata.plot import DASHED_FROM, INK, PALETTE, SVG_STYLE, svg
from strata.stats import duration, human
from strata.trace.replay import Replay
from strata.web import document

STYLE = "svg { width: 100%; height: auto; }"


def in_calls(axis: Axis, most: int) -> None:
    millions = most >= 2_000_000
    axis.set_major_formatter(
        FuncFormatter(lambda v, _: f"{v / 1e6:g} M" if millions else f"{v:,.0f}")
    )


def in_bytes(axes: Axes, most: int) -> None:
    """Ticks that are round in the unit that fits."""
    unit = next((u for u in (1 << 30, 1 << 20, 1 << 10) if most >= 2 * u), 1)
    axes.set_ylim(0, most * 1.05 + 1)
    steps = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, most / unit)
    axes.set_yticks([s * unit for s in steps if s * unit <= most * 1.05])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: human(v)))


def line(place: int) -> dict[str, Any]:
    style = "solid" if place < DASHED_FROM else "dashed"
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": style, "lw": 1.6}


def memory(replays: list[Replay]) -> str:
    figure, axes = plt.subplots(figsize=(8, 4))
    first = replays[0].samples
    axes.fill_between(
        [s.calls for s in first], [s.live for s in first], color="#dde3ea", label="live, as asked"
    )
    for place, r in enumerate(replays):
        axes.plot([s.calls for s in r.samples], [s.resident for s in r.samples],
                  **line(place), label=r.arm)  # fmt: skip
    axes.set_xlabel("calls made")
    in_calls(axes.xaxis, first[-1].calls)
    in_bytes(axes, max(max(s.resident, s.live) for r in replays for s in r.samples))
    axes.legend(fontsize=9)
    return svg(figure)


def fragmentation(replays: list[Replay]) -> str:
    """Where little is live the ratio says nothing, so it begins at a tenth of the peak."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    for place, r in enumerate(replays):
        shown = [s for s in r.samples if s.live * 10 >= r.peak_live and s.live > 0]
        axes.plot([s.calls for s in shown], [s.resident / s.live for s in shown],
                  **line(place), label=r.arm)  # fmt: skip
    axes.axhline(1, color=INK, lw=0.8)
    axes.set_xlabel("calls made")
    in_calls(axes.xaxis, replays[0].samples[-1].calls)
    return svg(figure)


def rows(replays: list[Replay]) -> str:
    return "".join(
        f"<tr><th>{escape(r.arm)}</th><td>{duration(1e9 * r.median_seconds)}</td>"
        f"<td>{duration(1e9 * r.cpu_seconds)}</td><td>{human(r.peak_resident)}</td>"
        f"<td>{r.fragmentation:.2f}</td><td>{human(r.end_resident)}</td></tr>"
        for r in replays
    )


def page(trace: Path, how: str, replays: list[Replay]) -> str:
    head = "<tr><th></th><th>time</th><th>CPU time</th><th>peak RSS</th><th>RSS / live</th>"
    with plt.rc_context(SVG_STYLE):
        body = f"""<h1>Replay of {escape(trace.name)}</h1>
<p class="lead">{replays[0].events:,} calls, {escape(how)}. Times are medians of
{len(replays[0].seconds)} runs without samples. Memory is the heap's, without the
replayer's own.</p>
<section><table><thead>{head}<th>RSS at end</th></tr></thead>
<tbody>{rows(replays)}</tbody></table></section>
<section><h2>Memory over the calls</h2>{memory(replays)}</section>
<section><h2>Fragmentation: resident over live bytes</h2>{fragmentation(replays)}
<p class="note">Shown while at least a tenth of the peak is live.</p></section>"""
    return document(f"Replay of {trace.name}", STYLE, "", body)


def write(folder: Path, trace: Path, how: str, replays: list[Replay]) -> None:
    make_folder(folder)
    write_file(folder / "index.html", page(trace, how, replays))
    result = {"trace": str(trace), "how": how, "replays": [asdict(r) for r in replays]}
    write_file(folder / "result.json", json.dumps(result, indent=1))
