"""The page: one file that loads nothing from elsewhere and fits a phone."""

from __future__ import annotations

import base64
from html import escape
from itertools import groupby

from strata.demo.figures import COLOURS, Picture
from strata.demo.report import Row

STYLE = """
:root { color-scheme: light; --ink: #1c2733; --soft: #52606d; --line: #dde3ea; --best: #e6f4ea; }
* { box-sizing: border-box; }
body { margin: 0; background: #f6f8fa; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
p { margin: 0 0 .8rem; }
.lead, .note { color: var(--soft); }
.note { font-size: .88rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1rem; margin: 1rem 0 0; }
dt { font-weight: 600; }
dd { margin: 0; }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px;
  padding: 1.1rem; margin-top: 1.1rem; }
img { display: block; width: 100%; height: auto; margin-top: .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, thead th { padding: .32rem .5rem; text-align: right; border-bottom: 1px solid var(--line); }
tbody th { font-weight: normal; text-align: left; padding: .32rem .5rem .32rem 0;
  border-bottom: 1px solid var(--line); }
tr.section th { font-weight: 600; padding-top: .9rem; }
td.best { background: var(--best); font-weight: 600; }
i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .35em; }
@media (max-width: 600px) {
  main { padding: 1rem .5rem 2rem; }
  section { padding: .8rem .6rem; }
  table { font-size: .74rem; }
  td, thead th { padding: .3rem .2rem; }
  h1 { font-size: 1.35rem; }
  dl { display: block; }
  dd { margin-bottom: .6rem; }
}
"""


def _image(picture: Picture, description: str) -> str:
    wide, narrow = (
        "data:image/png;base64," + base64.b64encode(data).decode()
        for data in (picture.wide, picture.narrow)
    )
    return (
        f'<picture><source media="(max-width: 600px)" srcset="{narrow}">'
        f'<img src="{wide}" alt="{escape(description)}"></picture>'
    )


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
                f'<td class="best">{escape(cell)}</td>'
                if at == row.best
                else f"<td>{escape(cell)}</td>"
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
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Strata: one Redis, three allocators</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>One Redis, three allocators</h1>
<p class="lead">{escape(lead)}</p>
<dl>{points}</dl>
<section><h2>All figures</h2>
{_table(names, rows)}
<p class="note">Green marks the best of a row where it leads by more than 3 %.</p></section>
{"".join(sections)}
<section><h2>What was done</h2>{foot}</section>
</main>
</body>
</html>
"""
