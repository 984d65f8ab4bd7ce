"""The report in short, for the terminal: what is resident, and whatever is worth doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strata.report.advice import Level
from strata.report.build import not_here, title
from strata.report.model import Recording
from strata.report.page import Section, first_things
from strata.report.tiers import knows_residency, resident_parts
from strata.stats import human
from strata.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

STYLES = {Level.LOOK: "yellow", Level.ACT: "bold red"}


def summary(recording: Recording, found: Sequence[Section]) -> RenderableType:
    """A table of RSS by cause, then what to do first, as the page has it."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    lines: list[RenderableType] = [Text(printable(title(recording)), style="bold")]
    if recording.last is not None and knows_residency(recording.last):
        parts = resident_parts(recording.last)
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column()
        table.add_column(justify="right")
        for name, value in (
            ("live", parts.live),
            ("slack", parts.slack),
            ("caches", parts.caches),
            ("free", parts.free),
            ("metadata", parts.metadata),
            ("untouched", -parts.untouched),
            ("not the heap's", parts.other),
            ("RSS" if parts.other is not None else "resident", parts.rss),
        ):
            if value is not None:
                table.add_row(name, human(value))
        lines += [table, Text()]
    first = first_things(found)
    said = {section.advice.command for section in first if section.advice is not None}
    first += [
        s
        for s in found
        if s.advice and s.advice.level is Level.ACT and s.advice.command not in said
    ]
    for section in first:
        assert section.advice is not None
        level = section.advice.level
        line = Text(f"{level.value}: ", style=STYLES[level])
        line.append(f"{section.heading}. ", style="bold")
        line.append(section.advice.text, style="default")
        lines.append(line)
        if section.advice.command:
            lines.append(Padding(Text(section.advice.command, style="cyan"), (0, 0, 0, 4)))
    if not recording.runs:
        lines.append(Text(not_here(recording)))
    more = [s.heading for s in found if s not in first and s.advice and s.advice.level in STYLES]
    if more:
        lines.append(Text(f"Worth a look on the page: {'; '.join(more)}."))
    quiet = sum(1 for s in found if s.advice is not None and s.advice.level is Level.FINE)
    absent = [section.heading for section in found if section.missing]
    lines.append(Text(f"{quiet} figures need no action.", style="green"))
    if absent:
        lines.append(Text(f"Missing: {', '.join(absent)}; the page says why.", style="dim"))
    return Group(*lines)
