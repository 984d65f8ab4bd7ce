"""Parts of docs/benchmarks.md that are written apart from each other: each lies between two marks,
so that whoever writes one keeps the others."""

from __future__ import annotations

import re

MARKED = re.compile(r"<!-- group: (\w+) -->\n.*?<!-- end of group -->\n", re.DOTALL)


def marked(name: str, text: str) -> str:
    return f"<!-- group: {name} -->\n{text}<!-- end of group -->\n"


def kept(page: str) -> str:
    """All marked parts of a page, as they stand."""
    return "\n".join(match[0] for match in MARKED.finditer(page))


def put(page: str, name: str, text: str) -> str:
    """The page with one part replaced, or appended where it had none."""
    for match in MARKED.finditer(page):
        if match[1] == name:
            return page[: match.start()] + marked(name, text) + page[match.end() :]
    return (page.rstrip("\n") + "\n\n" if page else "") + marked(name, text)
