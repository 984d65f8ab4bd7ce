"""The result of a simulation: cells of the table, a picture, a page that loads nothing from
elsewhere, JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from strata.files import write_file
from strata.plot import DASHED_FROM, INK, PALETTE, STYLE, SVG_STYLE, svg
from strata.simulate.core import BIN, Domain, Outcome
from strata.stats import human
from strata.web import document

if TYPE_CHECKING:
    from strata.simulate.command import Simulation

PAGE_STYLE = "svg { width: 100%; height: auto; }"
COLUMNS = {
    Domain.HEAP: ("held", "held / live", "held / least", "peak", "peak / live's"),
    Domain.FLASH: ("write amplification", "pages moved", "blocks erased"),
    Domain.JOBS: ("machines on", "on / least", "peak"),
}
LEAD = {
    Domain.HEAP: "Held are hugepages of 2 MiB with anything in them; live is what was asked for; "
    "the least is the number of whole hugepages that this would fill. Averages over time.",
    Domain.FLASH: "Write amplification is what was written over what the files wrote, in the "
    "second half of the run: the first fills the device.",
    Domain.JOBS: "A machine of 64 cores is on while it has a job; the least are those that the "
    "jobs' cores would fill. Averages over time.",
}
TITLES = {
    Domain.HEAP: "Fragmentation: held over live bytes",
    Domain.FLASH: "Write amplification",
    Domain.JOBS: "Machines kept on",
}
UNITS = ((86400 * 3, 86400, "days"), (3600 * 3, 3600, "hours"), (0, 1, "seconds"))


def cells(domain: Domain, outcome: Outcome) -> tuple[str, ...]:
    if domain is Domain.FLASH:
        moved = outcome.writes[-1][1] if outcome.writes else 0
        return (f"{outcome.write_amplification:.2f}", f"{moved:,}", f"{outcome.reclaimed:,}")
    if domain is Domain.JOBS:
        machine = BIN[domain]
        return (
            f"{outcome.held / machine:,.1f}",
            f"{outcome.over_bound:.3f}",
            f"{outcome.held_peak // machine:,}",
        )
    return (
        human(outcome.held),
        f"{outcome.ratio:.3f}",
        f"{outcome.over_bound:.3f}",
        human(outcome.held_peak),
        f"{outcome.peak_ratio:.3f}",
    )


Points = list[tuple[float, float]]


def curve(domain: Domain, outcome: Outcome) -> Points:
    """Time (ns) and value. Where little is live a ratio says nothing, so it is left out below a
    tenth of the peak."""
    if domain is Domain.JOBS:
        return [(end, held / BIN[domain]) for end, held, _ in outcome.parts]
    if domain is Domain.HEAP:
        least = max(outcome.live_peak / 10, 1)
        return [(end, held / live) for end, held, live in outcome.parts if live >= least]
    points: Points = []
    before = (0, 0)
    for (end, _, _), now in zip(outcome.parts, outcome.writes, strict=True):
        files, moved = now[0] - before[0], now[1] - before[1]
        if files > 0:
            points.append((end, (files + moved) / files))
        before = now
    return points


def line(place: int) -> dict[str, Any]:
    style = "solid" if place < DASHED_FROM else "dashed"
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": style, "lw": 1.5}


def unit_of(seconds: float) -> tuple[int, str]:
    return next((unit, name) for most, unit, name in UNITS if seconds >= most)


def draw(axes: Axes, domain: Domain, simulation: Simulation) -> None:
    last = max(end for outcome in simulation.outcomes for end, _, _ in outcome.parts) / 1e9
    unit, name = unit_of(last)
    for place, outcome in enumerate(simulation.outcomes):
        points = curve(domain, outcome)
        axes.plot([at / 1e9 / unit for at, _ in points], [value for _, value in points],
                  **line(place), label=outcome.policy)  # fmt: skip
    if domain is Domain.JOBS:
        axes.set_ylim(bottom=0)
    else:
        axes.axhline(1, color=INK, lw=0.8)
    axes.set_xlabel(name)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))


def picture(domain: Domain, simulations: Sequence[Simulation]) -> Figure:
    count = len(simulations)
    figure, every = plt.subplots(count, squeeze=False, figsize=(9, 3.8 * count))
    for axes, simulation in zip(every[:, 0], simulations, strict=True):
        draw(axes, domain, simulation)
        axes.set_title(f"{TITLES[domain]}, {simulation.items.name}", parse_math=False)
    return figure


def section(domain: Domain, simulation: Simulation) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS[domain])
    rows = "".join(
        f"<tr><th>{escape(outcome.policy)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells(domain, outcome))
        + "</tr>"
        for outcome in simulation.outcomes
    )
    figure, axes = plt.subplots(figsize=(9, 3.8))
    draw(axes, domain, simulation)
    axes.set_title(TITLES[domain])
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in simulation.notes)
    return f"""<section><h2>{escape(simulation.items.name)}</h2>
<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}
{svg(figure)}</section>"""


def page(domain: Domain, simulations: Sequence[Simulation]) -> str:
    with plt.rc_context(SVG_STYLE):
        sections = "\n".join(section(domain, simulation) for simulation in simulations)
    body = f'<h1>Packing by lifetime</h1>\n<p class="lead">{LEAD[domain]}</p>\n{sections}'
    return document("strata simulate", PAGE_STYLE, "", body)


def as_json(domain: Domain, simulations: Sequence[Simulation]) -> str:
    answer = [
        {
            "items": simulation.items.name,
            "domain": domain.value,
            "policies": [asdict(outcome) for outcome in simulation.outcomes],
        }
        for simulation in simulations
    ]
    return json.dumps(answer, indent=1)


def write(path: Path, domain: Domain, simulations: Sequence[Simulation]) -> None:
    if path.suffix == ".json":
        write_file(path, as_json(domain, simulations))
    elif path.suffix == ".html":
        write_file(path, page(domain, simulations))
    else:
        drawn = io.BytesIO()
        with plt.rc_context(STYLE):
            figure = picture(domain, simulations)
            figure.savefig(drawn)
            plt.close(figure)
        write_file(path, drawn.getvalue())
