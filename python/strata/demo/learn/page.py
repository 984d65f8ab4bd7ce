"""The picture and the page of `make learn`, and the sentences on them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from strata.demo.learn.load import Run
from strata.plot import INK, STYLE, EndLabel, label_ends
from strata.web import NARROW, document

COLOURS = ("#8a8f98", "#0b6fb8")
MIB = 1 << 20
MORE = 1.05
STILL_SECONDS = 2.0
GAIN = 0.9  # of what was held: above, it is said that little was saved
PAGE_STYLE = """
img { display: block; width: 100%; height: auto; margin-top: .4rem; }
pre { background: var(--back); padding: .6rem .8rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .85rem; margin: 0; }
i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .35em; }
"""


@dataclass(frozen=True)
class Done:
    """All of one `make learn`."""

    without: Run
    with_model: Run
    commands: list[str]
    notes: list[str]
    estimate: float | None  # of the heap without the model, by the run with it

    @property
    def runs(self) -> tuple[Run, Run]:
        return self.without, self.with_model


def mib(value: float) -> str:
    return f"{value / MIB:,.0f}"


def live_at_end(run: Run) -> int:
    return run.live[-1][1]


def rows(done: Done) -> list[tuple[str, list[str]]]:
    def row(name: str, cells: Sequence[str]) -> tuple[str, list[str]]:
        return name, list(cells)

    runs = done.runs
    return [
        row("held (RSS after the idle time), MiB", [mib(run.held) for run in runs]),
        row("live then, MiB", [mib(live_at_end(run)) for run in runs]),
        row("mean RSS after the first peak, MiB", [mib(run.mean_rss) for run in runs]),
        row("highest RSS, MiB", [mib(max(run.rss)) for run in runs]),
        row("requests a second", [f"{run.rate:,.0f}" for run in runs]),
        row("requests a second of the server's CPU", [f"{run.cpu_rate:,.0f}" for run in runs]),
    ]


def verdict(done: Done) -> str:
    """What came out, whichever way."""
    still = max(done.runs, key=lambda run: run.stood_still)
    if still.stood_still > STILL_SECONDS:
        return (
            f"The machine stood still for {still.stood_still:.0f} s in the run {still.name}, so "
            "the runs cannot be compared: run it again."
        )
    before, after = done.without.held, done.with_model.held
    wasted = [run.held - live_at_end(run) for run in done.runs]
    ratio = after / before
    if ratio > 1 / GAIN:
        said = f"The model made it worse: {mib(after)} MiB are held with it, {mib(before)} without"
    elif ratio > GAIN:
        said = f"The model saved little: {mib(after)} MiB are held with it, {mib(before)} without"
    else:
        less = 100 * (1 - wasted[1] / wasted[0]) if wasted[0] > 0 else 0.0
        said = (
            f"With the model {mib(after)} MiB are held instead of {mib(before)}; what is held "
            f"beyond what is live fell by {less:.0f} %"
        )
    peaks = [max(run.rss) for run in done.runs]
    if peaks[1] > MORE * peaks[0]:
        said += f". At the highest it held more, {mib(peaks[1])} MiB against {mib(peaks[0])}"
    speed = done.with_model.cpu_rate / done.without.cpu_rate
    return (
        f"{said}. For a second of CPU time the server did {speed:.2f} times the requests. Each "
        "ran once, which shows no spread."
    )


def estimate_sentence(done: Done) -> str:
    """The report's counterfactual beside the run that it is about; empty if there is none."""
    last = done.without.last
    if done.estimate is None or last is None:
        return ""
    real = last.bytes["resident"]
    off = done.estimate / real - 1
    side = "above" if off > 0 else "below"
    return (
        f"From the samples of the run with the model, the report estimates that the heap would "
        f"hold {mib(done.estimate)} MiB without it. The heap of the run without held "
        f"{mib(real)} MiB: the estimate is {100 * abs(off):.0f} % {side} it."
    )


def picture(done: Done, narrow: bool) -> bytes:
    with mpl.rc_context(STYLE):
        figure = drawn(done, narrow)
        buffer = BytesIO()
        figure.savefig(buffer, format="png")
        plt.close(figure)
    return buffer.getvalue()


def drawn(done: Done, narrow: bool) -> Figure:
    figure, axes = plt.subplots(figsize=(4.2, 4.2) if narrow else (9.6, 4.4))
    ends = []
    for run, colour in zip(done.runs, COLOURS, strict=True):
        axes.plot(run.times, [rss / MIB for rss in run.rss], color=colour, lw=1.4)
        ends.append(EndLabel(run.held / MIB, run.name, colour, "bold"))
    times, live = zip(*done.with_model.live, strict=True)
    axes.plot(times, [value / MIB for value in live], color=INK, lw=1, ls=(0, (3, 2)))
    ends.append(EndLabel(live[-1] / MIB, "live", INK))
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(run.times[-1] for run in done.runs))
    axes.grid(axis="y", color="#e3e8ee", lw=0.8)
    axes.set_title("RSS, MiB")
    axes.set_xlabel("seconds")
    label_ends(axes, ends)
    return figure


def table(done: Done) -> str:
    heads = "".join(
        f'<th scope="col"><i style="background:{colour}"></i>{escape(run.name)}</th>'
        for run, colour in zip(done.runs, COLOURS, strict=True)
    )
    lines = [f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>"]
    for name, cells in rows(done):
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{values}</tr>')
    return "".join([*lines, "</tbody></table>"])


def report_section(done: Done) -> str:
    said = estimate_sentence(done)
    if not said:
        return ""
    return f"""<section><h2>The report</h2><p>{escape(said)}</p>
<p><a href="report/index.html">What strata report says</a> of the process with the model.</p>
</section>"""


def render(done: Done) -> str:
    wide, narrow = (
        "data:image/png;base64," + base64.b64encode(picture(done, flag)).decode()
        for flag in (False, True)
    )
    said = verdict(done)
    image = f'<img src="{wide}" alt="{escape(said)}">'
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in done.notes)
    title = "A server that was told how long its objects live"
    body = f"""<h1>{title}</h1>
<p class="lead">{escape(said)}</p>
<section><h2>Memory over time</h2>
<p>The same visitors at the same server, without a model and with the one made of its own recording.
Dashed: what is live.</p>
<picture><source media="{NARROW}" srcset="{narrow}">{image}</picture>
</section>
<section><h2>All figures</h2>{table(done)}</section>
{report_section(done)}
<section><h2>The three commands</h2><pre>{escape(chr(10).join(done.commands))}</pre></section>
<section><h2>What was done</h2>{notes}</section>"""
    return document(f"Strata: {title.lower()}", PAGE_STYLE, "", body)


def write(done: Done, folder: Path) -> Path:
    """index.html, memory.png and data.json."""
    (folder / "memory.png").write_bytes(picture(done, narrow=False))
    (folder / "data.json").write_text(json.dumps(data(done), indent=1))
    path = folder / "index.html"
    path.write_text(render(done), encoding="utf-8")
    return path


def data(done: Done) -> dict[str, object]:
    runs = {
        run.name: {
            "seconds": [round(at, 3) for at in run.times],
            "rss": run.rss,
            "live": run.live,
            "held": run.held,
            "mean_rss": run.mean_rss,
            "requests": run.requests,
            "requests_per_second": run.rate,
            "requests_per_cpu_second": run.cpu_rate,
        }
        for run in done.runs
    }
    return {"runs": runs, "estimate_without": done.estimate}
