"""The result of a replay as a page that loads nothing from elsewhere, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from strata.errors import StrataError
from strata.plot import INK, PALETTE, SVG_STYLE, svg
from strata.stats import human
from strata.trace.replay import Replay
from strata.web import document

STYLE = "svg { width: 100%; height: auto; }"


def _number(value: float, _: int) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value:,.0f}"


def memory(replays: list[Replay]) -> str:
    figure, axes = plt.subplots(figsize=(8, 4))
    first = replays[0].samples
    axes.fill_between(
        [s.calls for s in first], [s.live for s in first], color="#dde3ea", label="live, as asked"
    )
    for place, r in enumerate(replays):
        colour = PALETTE[place % len(PALETTE)]
        axes.plot([s.calls for s in r.samples], [s.resident for s in r.samples], color=colour,
                  lw=1.6, label=r.arm)  # fmt: skip
    axes.set_xlabel("calls made")
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: human(v)))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=9)
    return svg(figure)


def fragmentation(replays: list[Replay]) -> str:
    """Where little is live the ratio says nothing, so it begins at a tenth of the peak."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    for place, r in enumerate(replays):
        shown = [s for s in r.samples if s.live * 10 >= r.peak_live and s.live > 0]
        axes.plot([s.calls for s in shown], [s.resident / s.live for s in shown],
                  color=PALETTE[place % len(PALETTE)], lw=1.6, label=r.arm)  # fmt: skip
    axes.axhline(1, color=INK, lw=0.8)
    axes.set_xlabel("calls made")
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    return svg(figure)


def rows(replays: list[Replay]) -> str:
    return "".join(
        f"<tr><th>{escape(r.arm)}</th><td>{r.median_seconds:.3f} s</td>"
        f"<td>{r.cpu_seconds:.3f} s</td><td>{human(r.peak_resident)}</td>"
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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(page(trace, how, replays))
        result = {"trace": str(trace), "how": how, "replays": [asdict(r) for r in replays]}
        (folder / "result.json").write_text(json.dumps(result, indent=1))
    except OSError as error:
        raise StrataError(f"{folder}: {(error.strerror or str(error)).lower()}", 1) from error
