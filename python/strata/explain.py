"""`strata explain`: what a message about a memory error means. docs/errors.md, which packages of
the command carry beside this file; the run time's messages name its sections."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from strata.errors import StrataError
from strata.terminal import echo

HERE = Path(__file__).resolve().parent
PAGES = (HERE / "errors.md", HERE.parent.parent / "docs/errors.md")  # a package's, the checkout's
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MESSAGE = re.compile(r"^### (.+)$", re.MULTILINE)  # the headings that messages name
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def page() -> str:
    for path in PAGES:
        if path.exists():
            return path.read_text()
    raise StrataError("errors.md is missing from this installation")


def anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def sections(text: str) -> dict[str, str]:
    """Each with its heading, by anchor, in the page's order."""
    starts = [*HEADING.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return {
        anchor(match[1]): f"{match[1]}\n\n{text[match.end() : end].strip()}"
        for match, end in zip(starts, ends, strict=True)
    }


def topics(text: str) -> list[str]:
    """Those that messages name come first."""
    named = [anchor(match[1]) for match in MESSAGE.finditer(text)]
    return [*named, *(topic for topic in sections(text) if topic not in named)]


def explain_command(
    topic: Annotated[
        str | None,
        typer.Argument(help="As the message names it, such as double-free. Default: all."),
    ] = None,
) -> None:
    """Explain a message about a memory error: what it means and where to look."""
    text = LINK.sub(r"\1", page())
    if topic is None:
        echo(text, end="")
        return
    known = sections(text)
    if topic not in known:
        raise StrataError(f"no such topic: {topic}; there are {', '.join(topics(text))}")
    echo(known[topic])


def add_to(app: typer.Typer) -> None:
    app.command("explain")(explain_command)
