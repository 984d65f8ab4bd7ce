"""What the pages of the tools share: one look, and a shell that loads nothing from elsewhere.

Used by the demo's page and by the report. Every string that goes in is HTML already; callers escape
what they did not write themselves.
"""

from __future__ import annotations

from html import escape

BASE_STYLE = """
:root { color-scheme: light; --ink: #1c2733; --soft: #52606d; --line: #dde3ea; --best: #e6f4ea;
  --back: #f6f8fa; --card: #fff; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
p { margin: 0 0 .8rem; }
.lead, .note { color: var(--soft); }
.note { font-size: .88rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.1rem; margin-top: 1.1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, thead th { padding: .32rem .5rem; text-align: right; border-bottom: 1px solid var(--line); }
tbody th { font-weight: normal; text-align: left; padding: .32rem .5rem .32rem 0;
  border-bottom: 1px solid var(--line); }
"""
PHONE_STYLE = """
  main { padding: 1rem .5rem 2rem; }
  section { padding: .8rem .6rem; }
  table { font-size: .74rem; }
  td, thead th { padding: .3rem .2rem; }
  h1 { font-size: 1.35rem; }
"""
NARROW = "(max-width: 600px)"  # below this the phone's layout and the narrow pictures


def document(title: str, style: str, phone_style: str, body: str) -> str:
    """A whole page. `style` follows the shared rules, `phone_style` holds only on small screens."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{BASE_STYLE}{style}@media {NARROW} {{{PHONE_STYLE}{phone_style}}}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
