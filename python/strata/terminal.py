"""What reaches a terminal: names of processes, functions and files are whatever somebody else chose
them to be, and a terminal obeys more than letters. All that is printed goes through here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

BROKEN_PIPE = 128 + signal.SIGPIPE  # as of a program that the signal ends


def printable(text: str, keep: str = "") -> str:
    """The text with everything escaped that is neither shown as it is nor in `keep`: controls,
    line ends, what turns the direction of writing, bytes that are no text. JSON stays JSON."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else json.dumps(c)[1:-1] for c in text)


def in_a_line(text: str) -> str:
    return printable(" ".join(text.split()))


def say(message: str) -> None:
    """One line on stderr, whatever the message holds. Where nobody can read it, it is lost, and
    the exit status is still what it would have been."""
    with contextlib.suppress(OSError):
        print(f"strata: {in_a_line(message)}", file=sys.stderr, flush=True)


def echo(text: str, end: str = "\n") -> None:
    """Lines on stdout."""
    print(printable(text, "\n\t"), end=end, flush=True)


def echo_bytes(body: bytes) -> None:
    """What another process calls text."""
    echo(body.decode(errors="surrogateescape"), end="")


@contextlib.contextmanager
def _wanted() -> Iterator[None]:
    """Whoever closes the pipe, as head does, has read enough: that is no mistake, and no finding
    (click would make it a 1)."""
    try:
        yield
    except BrokenPipeError:
        lose_output()
        raise SystemExit(BROKEN_PIPE) from None


class Unpadded:
    """A stream that is no terminal: what fills a line to its end is of no use to who reads it.
    What `may_be_lost`, as on stderr, changes nothing where nobody can read it."""

    def __init__(self, stream: TextIO, *, may_be_lost: bool = False) -> None:
        self.stream = stream
        self.may_be_lost = may_be_lost

    def _unread(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.suppress(OSError) if self.may_be_lost else _wanted()

    def write(self, text: str) -> int:
        with self._unread():
            self.stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def flush(self) -> None:
        with self._unread():
            self.stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


NO_END = 10_000  # columns: a pipe or a file has no edge to wrap a line at


def console(*, stderr: bool = False, soft_wrap: bool = False, width: int | None = None) -> Console:
    """A console that writes no control characters but its own, and takes no markup: a name may hold
    brackets."""
    from rich.console import (
        Console,
        ConsoleOptions,
        HighlighterType,
        JustifyMethod,
        OverflowMethod,
        RenderableType,
    )
    from rich.segment import Segment
    from rich.style import Style
    from rich.text import Text

    class Plain(Console):
        # Measured before they are rendered: what is to be escaped takes its place.
        def render_str(
            self,
            text: str,
            *,
            style: str | Style = "",
            justify: JustifyMethod | None = None,
            overflow: OverflowMethod | None = None,
            emoji: bool | None = None,
            markup: bool | None = None,
            highlight: bool | None = None,
            highlighter: HighlighterType | None = None,
        ) -> Text:
            return super().render_str(
                printable(text, "\n"),
                style=style,
                justify=justify,
                overflow=overflow,
                emoji=emoji,
                markup=markup,
                highlight=highlight,
                highlighter=highlighter,
            )

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text, "\n"), style, control)

    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty()
    if piped and width is None and not os.environ.get("COLUMNS"):
        width = NO_END
    return Plain(
        file=cast("TextIO", Unpadded(stream, may_be_lost=stderr)) if piped else None,
        stderr=stderr,
        soft_wrap=soft_wrap,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
    )


def lose_output() -> None:
    """What waits to be written to a full disk would be tried once more at the end, and told then
    by a traceback."""
    sys.stdout = Path(os.devnull).open("w")


def set_up() -> None:
    """A stream that lacks a letter gets its number, not an exception, and what goes to one that
    was closed before we started is lost."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
