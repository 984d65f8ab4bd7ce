"""The result for a person and for machines: a table, result.json, records.parquet, index.html."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from strata.compare.record import PARQUET, write_parquet
from strata.compare.result import Cell, Result, show
from strata.compare.statistics import Verdict
from strata.files import write_file

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.SAME: "dim"}
COUNTED = "Medians; ratios are paired within a round, geometric mean with its 95 % interval."


def ratio_text(cell: Cell) -> str:
    if cell.judgement is None:
        return ""
    found = cell.judgement.interval
    return f"{found.ratio:.3f}" if found.rounds < 2 else str(found)


def table(result: Result) -> Table:
    from rich.table import Table
    from rich.text import Text

    # Commands and arms are Text: as strings, rich would take [/x] in them for its markup.
    title = Text(shlex.join(result.plan.command))
    view = Table(title=title, title_justify="left", pad_edge=False)
    for header in ("figure", "arm", "median", f"/ {result.plan.arms[0]}", ""):
        view.add_column(Text(header), overflow="fold")
    for row in result.rows:
        for index, cell in enumerate(row.cells):
            judged = cell.judgement
            style = COLOURS.get(judged.verdict, "") if judged else ""
            view.add_row(
                Text(row.label if index == 0 else ""),
                Text(cell.arm),
                show(row.name, cell.median),
                ratio_text(cell),
                cell.sentence(result.margin),
                style=style,
                end_section=index == len(row.cells) - 1,
            )
    return view


def notes(result: Result) -> list[str]:
    """What a reader must know beside the figures."""
    lines = [
        f"arm {f.arm}: {f.failed} of {f.of} runs failed and are left out: {f.reason}"
        for f in result.failures()
    ]
    missing = result.missing()
    if missing:
        lines.append(f"{missing} of the plan's runs are missing")
    return lines


def write(result: Result, folder: Path) -> None:
    """All files of the result; each is replaced as a whole."""
    from strata.compare.page import render

    partial = folder / "result.json.partial"
    write_file(partial, json.dumps(result.to_json(), indent=1) + "\n")
    partial.rename(folder / "result.json")
    if result.records:
        write_parquet(result.records, folder / PARQUET)
    partial = folder / "index.html.partial"
    write_file(partial, render(result))
    partial.rename(folder / "index.html")
