"""The page: one file that loads nothing from elsewhere and fits a phone."""

from __future__ import annotations

import base64
from html import escape
from itertools import groupby

from strata.demo.figures import COLOURS, Picture
from strata.demo.report import Row
from strata.web import NARROW, document

STYLE = """
dl { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1rem; margin: 1rem 0 0; }
dt { font-weight: 600; }
dd { margin: 0; }
img { display: block; width: 100%; height: auto; margin-top: .4rem; }
tr.section th { font-weight: 600; padding-top: .9rem; }
td small { white-space: nowrap; font-size: .85em; font-weight: 400; opacity: .7; }
td.best { background: var(--best); font-weight: 600; }
i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .35em; }
"""
PHONE_STYLE = """
  dl { display: block; }
  dd { margin-bottom: .6rem; }
"""


def _image(picture: Picture, description: str) -> str:
    wide, narrow = (
        "data:image/png;base64," + base64.b64encode(data).decode()
        for data in (picture.wide, picture.narrow)
    )
    return (
        f'<picture><source media="{NARROW}" srcset="{narrow}">'
        f'<img src="{wide}" alt="{escape(description)}"></picture>'
    )


def _cell(text: str) -> str:
    """The median, and its range as one word that may go to the next line."""
    value, _, span = text.partition(" (")
    return f"{escape(value)} <small>({escape(span)}</small>" if span else escape(value)


def _table(names: list[str], rows: list[Row]) -> str:
    heads = "".join(
        f'<th scope="col"><i style="background:{COLOURS[name]}"></i>{escape(name)}</th>'
        for name in names
    )
    lines = [f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>"]
    for section, members in groupby(rows, key=lambda row: row.section):
        lines.append(
            f'<tr class="section"><th scope="rowgroup" colspan="{len(names) + 1}">'
            f"{escape(section)}</th></tr>"
        )
        for row in members:
            cells = "".join(
                f'<td class="best">{_cell(cell)}</td>'
                if at == row.best
                else f"<td>{_cell(cell)}</td>"
                for at, cell in enumerate(row.cells)
            )
            lines.append(f'<tr><th scope="row">{escape(row.label)}</th>{cells}</tr>')
    lines.append("</tbody></table>")
    return "\n".join(lines)


def render(
    names: list[str],
    lead: str,
    summary: dict[str, str],
    rows: list[Row],
    figures: list[tuple[str, Picture, list[str]]],
    notes: list[str],
    even: str,
) -> str:
    """The whole page. A figure is its heading, the picture, and the sentences that go with it."""
    sections = []
    for heading, picture, sentences in figures:
        text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        image = _image(picture, f"{heading}. {sentences[0]}")
        sections.append(f"<section><h2>{escape(heading)}</h2>{text}{image}</section>")
    points = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(sentence)}</dd>" for name, sentence in summary.items()
    )
    foot = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return document(
        "Strata: one Redis, three allocators",
        STYLE,
        PHONE_STYLE,
        f"""<h1>One Redis, three allocators</h1>
<p class="lead">{escape(lead)}</p>
<dl>{points}</dl>
<section><h2>All figures</h2>
{_table(names, rows)}
<p class="note">In brackets the lowest and the highest round. Green marks the best of a row where
one is. {escape(even)}</p></section>
{"".join(sections)}
<section><h2>What was done</h2>{foot}</section>""",
    )
