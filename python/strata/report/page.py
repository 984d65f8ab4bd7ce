"""The page: sections in order, in the tools' shared shell, for light and dark, desktop and phone.

Function names and command lines are whatever the program chose, so every string is escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from strata.report.advice import Advice, Level
from strata.report.charts import LIFE, SERIES
from strata.report.profiles import Top
from strata.web import document

DARK = {
    "ink": "#e6edf3",
    "soft": "#9fb0c0",
    "line": "#2d3947",
    "back": "#0f161d",
    "card": "#17212b",
    "edge": "#4a5a6a",
    "grid": "#2d3947",
    "code": "#0f161d",
    "fine": "#7ee2a8",
    "look": "#ffd479",
    "act": "#ff9d84",
    "c0": "#58a6e8",
    "c1": "#f0b23e",
    "c2": "#2fc294",
    "c3": "#d995bb",
    "c4": "#8fd0f5",
    "c5": "#f08a4b",
    "c6": "#8b98a5",
    "c7": "#d3c33c",
    "life0": "#d3e9fb",
    "life1": "#a9cdec",
    "life2": "#6aa9dc",
    "life3": "#2f7fc1",
    "life4": "#1c5a94",
    "life5": "#173a5c",
    "life6": "#e6a04a",
}
LIGHT = {
    "edge": "#b8c1cc",
    "grid": "#e3e8ee",
    "code": "#f0f3f6",
    "fine": "#17693c",
    "look": "#7a5200",
    "act": "#a32a10",
    **{f"c{number}": colour for number, colour in enumerate(SERIES)},
    **{f"life{number}": colour for number, colour in enumerate(LIFE)},
}


def _variables(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


STYLE = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
.narrow {{ display: none; }}
svg {{ display: block; width: 100%; height: auto; margin-top: .6rem; }}
.advice {{ border-left: 4px solid var(--edge); padding: .1rem 0 .1rem .8rem; }}
.advice b {{ text-transform: uppercase; font-size: .72rem; letter-spacing: .05em; display: block; }}
.advice.fine {{ border-color: var(--fine); }} .advice.fine b {{ color: var(--fine); }}
.advice.look {{ border-color: var(--look); }} .advice.look b {{ color: var(--look); }}
.advice.act {{ border-color: var(--act); }} .advice.act b {{ color: var(--act); }}
.advice, li, td, th, h1, .lead {{ overflow-wrap: anywhere; }}
pre {{ background: var(--code); border-radius: 6px; padding: .5rem .7rem; margin: .5rem 0 0;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }}
.missing {{ color: var(--soft); border: 1px dashed var(--edge); border-radius: 8px;
  padding: .6rem .8rem; margin-top: 1rem; }}
details {{ margin-top: .6rem; }}
summary {{ cursor: pointer; color: var(--soft); font-size: .88rem; }}
ol.tops {{ list-style: none; margin: .8rem 0 0; padding: 0; }}
ol.tops > li {{ margin-bottom: .7rem; }}
.bar {{ height: .5rem; border-radius: 3px; background: var(--grid); margin: .2rem 0; }}
.bar span {{ display: block; height: 100%; border-radius: 3px; background: var(--c0); }}
.value {{ color: var(--soft); font-variant-numeric: tabular-nums; font-size: .88rem; }}
ol.stack {{ margin: .3rem 0 0; padding-left: 2rem; font: .8rem/1.5 ui-monospace, monospace; }}
table.map {{ margin-top: 1rem; table-layout: fixed; }} table.map thead th {{ text-align: center; }}
td.cell {{ text-align: center; border: 2px solid var(--card); }}
.keys {{ font-size: .88rem; color: var(--soft); margin: .8rem 0 0; }}
.key {{ display: inline-block; margin-right: .8rem; }}
.key i {{ display: inline-block; width: .8em; height: .8em; margin-right: .3em; }}
.key i.none {{ border: 1px solid var(--edge); }}
#first a {{ color: var(--c0); }}
nav {{ font-size: .9rem; margin-top: .8rem; }}
nav a {{ color: var(--c0); margin-right: .9rem; display: inline-block; padding: .15rem 0; }}
"""
PHONE_STYLE = """
  .wide { display: none; }
  .narrow { display: block; }
  ol.stack { padding-left: 1.6rem; font-size: .74rem; }
"""
CLASSES = {Level.FINE: "fine", Level.LOOK: "look", Level.ACT: "act"}


@dataclass(frozen=True)
class Section:
    """One figure: what it shows, what to do about it, the picture, and its numbers as a table.

    Without data `missing` says what there is not and how to get it, and there is no advice."""

    name: str
    heading: str
    about: str = ""
    advice: Advice | None = None
    picture: str = ""  # HTML
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    missing: str = ""
    remedy: str = ""


def plural(count: int, name: str) -> str:
    return f"{count:,} {name}" + ("" if count == 1 else "s")


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the row."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in headers[1:])
    lines = [f"<table><thead><tr><td>{escape(headers[0])}</td>{heads}</tr></thead><tbody>"]
    for row in rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in row[1:])
        lines.append(f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table>"])


def advice_html(advice: Advice) -> str:
    command = f"<pre>{escape(advice.command)}</pre>" if advice.command else ""
    return (
        f'<div class="advice {CLASSES[advice.level]}"><b>{advice.level.value}</b>'
        f"{escape(advice.text)}{command}</div>"
    )


MOST_STACKS = 3  # of one function


def stack_list(tops: Sequence[Top], amounts: Sequence[str]) -> str:
    """The heaviest functions, each with a bar and the call stacks that lead to it to unfold."""
    items = []
    for top, amount in zip(tops, amounts, strict=True):
        items.append(
            f"<li><strong>{escape(top.site)}</strong>"
            f'<div class="bar" aria-hidden="true"><span style="width:{100 * top.share:.1f}%">'
            f'</span></div><span class="value">{escape(amount)}</span>{unfolded(top)}</li>'
        )
    return f'<ol class="tops">{"".join(items)}</ol>'


def unfolded(top: Top) -> str:
    """The frames of one call stack, or of the heaviest of several with each one's share."""
    if len(top.stacks) <= 1:
        return folded(plural(len(top.stack), "frame"), top.stack)
    parts = [
        folded(f"{100 * value / top.value:.0f} % by {plural(len(stack), 'frame')}", stack)
        for stack, value in top.stacks[:MOST_STACKS]
        if top.value
    ]
    more = len(top.stacks) - len(parts)
    if more > 0:
        parts.append(f'<span class="value">and {plural(more, "other call stack")}</span>')
    return "".join(parts)


def folded(summary: str, stack: Sequence[str]) -> str:
    frames = "".join(f"<li>{escape(name)}</li>" for name in stack)
    return f'<details><summary>{escape(summary)}</summary><ol class="stack">{frames}</ol></details>'


def section_html(section: Section) -> str:
    parts = [f'<section id="{section.name}"><h2>{escape(section.heading)}</h2>']
    if section.about:
        parts.append(f'<p class="note">{escape(section.about)}</p>')
    if section.missing:
        remedy = f"<pre>{escape(section.remedy)}</pre>" if section.remedy else ""
        parts.append(f'<div class="missing">{escape(section.missing)}{remedy}</div>')
    if section.advice is not None:
        parts.append(advice_html(section.advice))
    parts.append(section.picture)
    if section.rows:
        parts.append(
            f"<details><summary>The numbers</summary>{table(section.headers, section.rows)}"
            "</details>"
        )
    return "\n".join([*parts, "</section>"])


MOST_FIRST = 3  # things to do at the top of the page


def first_things(sections: Sequence[Section]) -> list[Section]:
    """Those whose advice is worth following first: what is to be done before what is worth a look,
    and of each what brings most. What cannot be counted in bytes has its place in its section."""
    asked = [
        section
        for section in sections
        if section.advice is not None
        and section.advice.level is not Level.FINE
        and (section.advice.brings or section.advice.level is Level.ACT)
    ]

    def rank(section: Section) -> tuple[bool, int]:
        assert section.advice is not None
        return section.advice.level is not Level.ACT, -section.advice.brings

    # One cause or command is one thing to do, whatever figures show it: best, one with a command.
    found: dict[str, Section] = {}
    for section in sorted(asked, key=rank):
        assert section.advice is not None
        key = section.advice.cause or section.advice.command or section.name
        first = found.setdefault(key, section).advice
        if section.advice.command and first is not None and not first.command:
            found[key] = section
    return list(found.values())[:MOST_FIRST]


def first_html(sections: Sequence[Section]) -> str:
    """What to do first, each with the way to its figure."""
    items = [
        f'<li><a href="#{section.name}">{escape(section.heading)}</a>{advice_html(section.advice)}'
        "</li>"
        for section in first_things(sections)
        if section.advice is not None
    ]
    if not items:
        return '<section id="first"><h2>What to do first</h2><p>Nothing.</p></section>'
    return (
        '<section id="first"><h2>What to do first</h2>'
        f'<ol class="tops">{"".join(items)}</ol></section>'
    )


def render(title: str, lead: str, sections: Sequence[Section], foot: Sequence[str]) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{s.name}">{escape(s.heading)}</a>' for s in sections)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in foot)
    body = f"""<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
<nav aria-label="Figures">{links}</nav>
{first_html(sections)}
{"".join(section_html(section) for section in sections)}
<section><h2>How this was taken</h2>{notes}</section>"""
    return document(title, STYLE, PHONE_STYLE, body)
