"""The result of a measurement as a page that loads nothing from elsewhere, a picture, and JSON."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from strata.errors import StrataError, why_refused
from strata.files import write_file
from strata.pageutil.measure import EpochUse, Result, TypeUse, Use
from strata.pageutil.names import StackNames
from strata.plot import INK, PALETTE, SOFT, STYLE, SVG_STYLE, svg
from strata.stats import duration, human
from strata.web import document

PAGE_STYLE = """svg { width: 100%; height: auto; } .wide { overflow-x: auto; }
td.stack { text-align: left; font-size: .8rem; overflow-wrap: anywhere; }
tbody th { overflow-wrap: anywhere; }
thead th:first-child { text-align: left; padding-left: 0; }"""
MOST_LINES = 6  # epochs drawn in colours of their own
MOST_TYPES = 30
MOST_FRAMES = 4


def prepare(folder: Path) -> None:
    """Before the command runs: what cannot be written is told before minutes are spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / "pageutil.json"
        probe.touch()
    except OSError as error:
        raise StrataError(f"--output {folder}: {why_refused(error)}") from error


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def shown(epochs: Sequence[EpochUse]) -> list[EpochUse]:
    """Those with pages; of many, some from first to last."""
    used = [epoch for epoch in epochs if epoch.use.pages]
    if len(used) <= MOST_LINES:
        return used
    step = (len(used) - 1) / (MOST_LINES - 1)
    return [used[round(step * at)] for at in range(MOST_LINES)]


def span(epoch: EpochUse) -> str:
    return f"{epoch.begin:.1f} to {epoch.end:.1f} s"


def draw_cdf(axes: Axes, epochs: Sequence[EpochUse]) -> None:
    """The slides' figure 4: of the pages touched, how many use at most so much."""
    for at, epoch in enumerate(shown(epochs)):
        name = f"{span(epoch)}, {percent(epoch.use.utilization)}"
        axes.plot(range(len(epoch.cdf)), [100 * share for share in epoch.cdf],
                  color=PALETTE[at % len(PALETTE)], lw=1.7, label=name)  # fmt: skip
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 102)
    axes.set_xlabel("bytes of a page that were touched, %")
    axes.set_ylabel("pages, %")
    axes.grid(color="#eef1f4")
    if any(epoch.use.pages for epoch in epochs):
        axes.legend(title="epoch, its utilization", fontsize=8.5, title_fontsize=8.5,
                    loc="best", frameon=True, edgecolor="none")  # fmt: skip


def draw_time(axes: Axes, epochs: Sequence[EpochUse]) -> None:
    edges = [epochs[0].begin, *(epoch.end for epoch in epochs)]
    axes.stairs([100 * epoch.use.utilization for epoch in epochs], edges, color=PALETTE[0], lw=1.8)
    axes.set_ylim(0, 102)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_xlabel("seconds")
    axes.set_ylabel("page utilization, %", color=PALETTE[0])
    other = axes.twinx()
    other.spines["right"].set_visible(True)
    other.stairs([epoch.use.pages for epoch in epochs], edges, color=PALETTE[1], lw=1.2)
    other.set_ylabel("pages touched", color=PALETTE[1])
    other.set_ylim(bottom=0)
    other.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def picture(result: Result, title: str) -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    draw_cdf(left, result.epochs)
    left.set_title("Page utilization of the heap, by epoch", color=INK)
    draw_time(right, result.epochs)
    right.set_title("Over time", color=INK)
    figure.suptitle(title, fontsize=9.5, color=SOFT, x=0.01, ha="left", parse_math=False)
    return figure


def row(name: str, use: Use) -> str:
    return (
        f"<tr><th>{escape(name)}</th><td>{use.pages:,}</td><td>{human(use.bytes)}</td>"
        f"<td>{percent(use.utilization)}</td></tr>"
    )


def uses(first: str, rows: Sequence[tuple[str, Use]]) -> str:
    head = f"<tr><th>{first}</th><th>pages</th><th>touched</th><th>utilization</th></tr>"
    body = "".join(row(name, use) for name, use in rows)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def class_name(size: int) -> str:
    return human(size) if size else "above 256 KiB"


def type_row(kind: TypeUse, names: StackNames) -> str:
    frames = "<br>".join(escape(name) for name in names.of(kind.stack)[:MOST_FRAMES]) or "–"
    return (
        f'<tr><td class="stack">{frames}</td><td>{human(kind.size)}</td><td>{kind.allocations:,}'
        f"</td><td>{kind.pages:,}</td><td>{human(kind.touched)}</td><td>{human(kind.untouched)}"
        f"</td><td>{percent(kind.utilization)}</td></tr>"
    )


def block_sections(result: Result, names: StackNames) -> str:
    if not result.knows_blocks:
        return (
            '<section><p class="note">Run it with <code>--heap strata</code>, or with '
            "<code>--stacks</code> on its own malloc, to see which size classes and call stacks "
            "waste their pages.</p></section>"
        )
    classes = uses("size class", [(class_name(size), use) for size, use in result.classes])
    head = "".join(
        f"<th>{name}</th>"
        for name in ("allocated by", "size", "blocks", "pages", "touched", "untouched", "used")
    )
    rows = "".join(type_row(kind, names) for kind in result.types[:MOST_TYPES])
    more = len(result.types) - MOST_TYPES
    note = f" {more:,} more kinds are in the JSON." if more > 0 else ""
    return f"""<section><h2>By size class</h2>{classes}
<p class="note">A page counts for the size of the blocks that most of it holds.</p></section>
<section><h2>Which blocks waste their pages</h2>
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>
<p class="note">Blocks of one size from one call stack, on pages of which anything was touched in
the run. Untouched are bytes of blocks that live at the end; {human(result.free)} more were no
block's.{note}</p></section>"""


def page(command: Sequence[str], result: Result, names: StackNames) -> str:
    what = "bytes" if result.unit == 1 else f"cache lines of {result.unit} bytes"
    line = shlex.join(command)
    with plt.rc_context(SVG_STYLE):
        figure, axes = plt.subplots(figsize=(8, 4))
        draw_cdf(axes, result.epochs)
        by_epoch = svg(figure)
        figure, axes = plt.subplots(figsize=(8, 3))
        draw_time(axes, result.epochs)
        over_time = svg(figure)
    heap = result.heap
    epochs = [(span(e), e.use) for e in result.epochs]
    body = f"""<h1>Page utilization: {percent(heap.utilization)}</h1>
<p class="lead"><code>{escape(line)}</code> touched {heap.pages:,} pages of its heap in
{duration(1e9 * result.seconds)}, and {human(heap.bytes)} of their {human(heap.pages * 4096)},
counted in {what}.</p>
<section><h2>How full the pages of the heap are used</h2>{by_epoch}
<p class="note">Each line is an epoch: the share of the pages touched in it of which at most so many
bytes were touched in it.</p></section>
<section><h2>Over time</h2>{over_time}</section>
<section><h2>By mapping, in the whole run</h2>{uses("mapping", result.mappings)}</section>
{block_sections(result, names)}
<section><h2>The heap by epoch</h2>{uses("epoch", epochs)}</section>"""
    return document(f"Page utilization of {command[0]}", PAGE_STYLE, "", body)


def use_fields(use: Use) -> dict[str, Any]:
    return {"pages": use.pages, "bytes": use.bytes, "utilization": round(use.utilization, 6)}


def as_json(command: Sequence[str], status: int, result: Result, names: StackNames) -> str:
    found: dict[str, Any] = {
        "command": list(command),
        "exit_status": status,
        "started_unix": round(result.started_unix, 3),
        "seconds": round(result.seconds, 3),
        "granularity": "byte" if result.unit == 1 else "line",
        "page_bytes": 4096,
        "heap": use_fields(result.heap),
        "mappings": [{"name": name, **use_fields(use)} for name, use in result.mappings],
        "epochs": [
            {"begin": round(e.begin, 3), "end": round(e.end, 3), **use_fields(e.use), "cdf": e.cdf}
            for e in result.epochs
        ],
        "unmeasured": {"forks": result.forks, "executes": result.executes},
    }
    if result.knows_blocks:
        found["size_classes"] = [
            {"size": size or None, **use_fields(use)} for size, use in result.classes
        ]
        found["types"] = [
            {
                "size": kind.size,
                "stack": names.of(kind.stack),
                "allocations": kind.allocations,
                "pages": kind.pages,
                "touched": kind.touched,
                "untouched": kind.untouched,
            }
            for kind in result.types
        ]
        found["free_bytes"] = result.free
    return json.dumps(found, indent=1)


def write(folder: Path, command: Sequence[str], status: int, result: Result) -> str:
    """All three; the JSON is returned."""
    names = StackNames(result)
    text = as_json(command, status, result, names)
    write_file(folder / "pageutil.json", text + "\n")
    write_file(folder / "index.html", page(command, result, names))
    drawn = io.BytesIO()
    with plt.rc_context(STYLE):
        figure = picture(result, shlex.join(command)[:120])
        figure.savefig(drawn)
        plt.close(figure)
    write_file(folder / "pageutil.png", drawn.getvalue())
    return text
