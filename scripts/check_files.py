#!/usr/bin/env python3
"""Checks what no linter does: a source file begins with a comment that says what it is, and is
at most 500 lines long unless it stands in ALLOWED with a reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 500
COMMENT = {
    ".h": ("//", "/*"),
    ".cpp": ("//", "/*"),
    ".c": ("//", "/*"),
    ".py": ('"""', "#"),
    ".sh": ("#",),
    ".cmake": ("#",),
}
# path -> why it may be longer
ALLOWED: dict[str, str] = {}


def check(name: str, text: str) -> Iterator[str]:
    """Yields `file:line: message` for each rule that one file breaks."""
    lines = text.splitlines()
    body = next((line for line in lines if line.strip() and not line.startswith("#!")), "")
    if lines and not body.startswith(COMMENT[Path(name).suffix]):
        yield f"{name}:1: does not begin with a comment that says what it is"
    if len(lines) > MAX_LINES and name not in ALLOWED:
        yield f"{name}:{MAX_LINES}: is {len(lines)} lines long, {MAX_LINES} are allowed"


def main() -> int:
    """Checks every file that git knows or would add."""
    root = Path(__file__).resolve().parent.parent
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    messages = [
        message
        for name in sorted(listing.splitlines())
        if Path(name).suffix in COMMENT and (root / name).is_file()
        for message in check(name, (root / name).read_text())
    ]
    print(*messages, sep="\n", end="\n" if messages else "", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
