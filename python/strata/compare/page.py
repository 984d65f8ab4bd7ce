"""The result as one page that loads nothing from elsewhere: table, ratios, memory over time."""

from __future__ import annotations

import math
import shlex
from html import escape

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from strata.compare.output import COUNTED, notes, ratio_text
from strata.compare.result import Result, Row, show
from strata.plot import PALETTE, SOFT, SVG_STYLE, svg
from strata.web import document

MIB = 1 << 20
EXTRA = """
.scroll { overflow-x: auto; }
.scroll td, .scroll th { white-space: nowrap; }
thead th:nth-child(-n+2), thead th:nth-child(4) { text-align: left; }
tbody tr.more > * { border-bottom-color: transparent; }
svg { width: 100%; height: auto; }
.better { color: #1e7b3a; font-weight: 600; } .worse { color: #b3261e; font-weight: 600; }
td.arm, td.said { text-align: left; }
"""


def _ratios(result: Result) -> str:
    rows = [r for r in result.rows if any(_bounded(r, a) for a in result.plan.arms[1:])]
    if not rows:
        return ""
    others = result.plan.arms[1:]
    height = 0.9 + 0.24 * len(rows) * (len(others) + 0.6)
    figure, axes = plt.subplots(figsize=(7.5, height))
    step = len(others) + 0.6
    for index, row in enumerate(rows):
        for place, arm in enumerate(others):
            found = _bounded(row, arm)
            if found is not None:
                ratio, low, high = found
                y = -(index * step + place)
                colour = PALETTE[(place + 1) % len(PALETTE)]
                axes.plot([low, high], [y, y], color=colour, lw=2.5, solid_capstyle="butt")
                axes.plot([ratio], [y], "o", color=colour, ms=5, label=arm if index == 0 else None)
    axes.axvspan(1 / (1 + result.margin), 1 + result.margin, color="#dde3ea", zorder=0)
    axes.axvline(1, color=SOFT, lw=1)
    axes.set_yticks([-(i * step + (len(others) - 1) / 2) for i in range(len(rows))])
    axes.set_yticklabels([r.label.strip() + (" ↑" if r.higher_is_better else " ↓") for r in rows])
    axes.set_xlabel(f"ratio to {result.plan.arms[0]}; grey: the margin")
    if len(others) > 1:
        axes.legend(loc="best", fontsize=8)
    return svg(figure)


def _bounded(row: Row, arm: str) -> tuple[float, float, float] | None:
    for cell in row.cells:
        if cell.arm == arm and cell.judgement is not None:
            found = cell.judgement.interval
            if found.rounds > 1 and math.isfinite(found.high):
                return found.ratio, found.low, found.high
    return None


def _memory(result: Result) -> str:
    figure, axes = plt.subplots(figsize=(7.5, 3))
    drawn = False
    for index, arm in enumerate(result.plan.arms):
        runs = [r for r in result.records if r.arm == arm and r.counts and len(r.rss) > 2]
        for number, run in enumerate(runs):
            drawn = True
            axes.plot(
                run.rss_at,
                [value / MIB for value in run.rss],
                color=PALETTE[index % len(PALETTE)],
                lw=1,
                alpha=0.5,
                label=arm if number == 0 else None,
            )
    axes.set_xlabel("seconds")
    axes.set_ylabel("RSS, MiB")
    axes.set_ylim(bottom=0)
    if not drawn:
        plt.close(figure)
        return ""
    axes.legend(loc="best", fontsize=8)
    return svg(figure)


def _table(result: Result) -> str:
    head = "<tr><th>figure</th><th>arm</th><th>median</th><th></th>"
    base = escape(result.plan.arms[0])
    lines = [f"<table><thead>{head}<th>ratio to {base}</th></tr></thead><tbody>"]
    for row in result.rows:
        for index, cell in enumerate(row.cells):
            judged = cell.judgement
            said = cell.sentence(result.margin)
            mark = judged.verdict.name.lower() if judged else ""
            more = ' class="more"' if index < len(row.cells) - 1 else ""
            label = escape(row.label.strip()) if index == 0 else ""
            lines.append(
                f'<tr{more}><th scope="row">{label}</th><td class="arm">{escape(cell.arm)}</td>'
                f"<td>{escape(show(row.name, cell.median))}</td>"
                f'<td class="said {mark}">{escape(said)}</td>'
                f"<td>{escape(ratio_text(cell))}</td></tr>"
            )
    return "\n".join([*lines, "</tbody></table>"])


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{heading}</h2>{body}</section>" if body else ""


def render(result: Result) -> str:
    plan = result.plan
    with mpl.rc_context(SVG_STYLE):
        ratios, memory = _ratios(result), _memory(result)
    load = f" under <code>{escape(shlex.join(plan.load))}</code>" if plan.load else ""
    hosts = f" on {escape(', '.join(result.hosts))}" if result.hosts else ""
    said = "".join(f'<p class="note">{escape(line)}</p>' for line in notes(result))
    body = f'<div class="scroll">{_table(result)}</div><p class="note">{COUNTED}</p>{said}'
    return document(
        f"strata compare: {plan.command[0]}",
        EXTRA,
        "",
        f"""<h1>{escape(" against ".join(plan.arms))}</h1>
<p class="lead"><code>{escape(shlex.join(plan.command))}</code>{load}{hosts}</p>
{_section("Ratios", ratios)}
{_section("What differs", body)}
{_section("Memory over time", memory)}""",
    )
