"""What the engine found, and which of it is known or allowed already."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from strata.errors import StrataError
from strata.files import read_file, write_file

ALLOW = re.compile(r"strata-lint:\s*allow\s+([\w*]+(?:\s*,\s*[\w*]+)*)")
VERSION = 1


@dataclass(frozen=True)
class Step:
    file: str
    line: int
    column: int
    function: str
    note: str

    @property
    def place(self) -> str:
        return f"{shown(self.file)}:{self.line}" if self.line else self.function


@dataclass(frozen=True)
class Finding:
    program: str
    property: str
    title: str
    message: str
    steps: tuple[Step, ...] = field(default=())
    possible: bool = False  # wrong unless something that was not followed forbids it

    @builtins.property
    def sink(self) -> Step:
        return self.steps[-1]

    @builtins.property
    def origin(self) -> Step:
        return self.steps[0]

    def key(self) -> str:
        """The same after lines have moved: what is wrong, in which functions, on which text."""
        parts = [self.property, self.message]
        for step in (self.origin, self.sink):
            parts += [
                Path(step.file).name,
                step.function,
                source_line(step.file, step.line).strip(),
            ]
        return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


def shown(file: str) -> str:
    """Relative to here, if it is below."""
    here = os.fspath(Path.cwd()) + os.sep
    clean = os.path.normpath(file)
    return clean.removeprefix(here)


@cache
def source(file: str) -> list[str]:
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return []


def source_line(file: str, line: int) -> str:
    lines = source(file)
    return lines[line - 1] if 0 < line <= len(lines) else ""


def from_engine(program: str, found: dict[str, object]) -> list[Finding]:
    out = []
    entries = found["findings"]
    assert isinstance(entries, list)
    for entry in entries:
        steps = tuple(
            Step(s.get("file", ""), s.get("line", 0), s.get("column", 0), s["function"], s["note"])
            for s in entry["steps"]
        )
        kind, title, message = entry["property"], entry["title"], entry["message"]
        possible = bool(entry.get("possible"))
        out.append(Finding(program, kind, title, message, steps, possible))
    return out


def distinct(findings: list[Finding]) -> list[Finding]:
    """Once each, though several programs hold the code; in the order of files and lines. What is
    sure in one program is sure."""
    seen: dict[tuple[object, ...], Finding] = {}
    for f in sorted(findings, key=lambda f: f.possible):
        ends = (f.origin.file, f.origin.line, f.sink.file, f.sink.line)
        seen.setdefault((f.property, f.message, ends), f)
    return sorted(seen.values(), key=lambda f: (f.sink.file, f.sink.line, f.property, f.message))


def is_allowed(finding: Finding) -> bool:
    """Whether a comment on the line of the sink or the source, or on the line above, allows it."""
    for step in (finding.origin, finding.sink):
        for line in (step.line, step.line - 1):
            if match := ALLOW.search(source_line(step.file, line)):
                names = {n.strip() for n in match.group(1).split(",")}
                if finding.property in names or "*" in names:
                    return True
    return False


def read_baseline(path: Path) -> Counter[str]:
    text = read_file(path)
    try:
        stored = json.loads(text)
        if stored["version"] != VERSION:
            raise StrataError(f"{path}: a baseline of another version; write it anew")
        return Counter({str(k): int(n) for k, n in stored["known"].items()})
    except (
        ValueError,
        RecursionError,
        OverflowError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise StrataError(f"{path}: not a baseline of strata lint") from error


def write_baseline(path: Path, findings: list[Finding]) -> None:
    known = dict(sorted(Counter(f.key() for f in findings).items()))
    write_file(path, json.dumps({"version": VERSION, "known": known}, indent=1) + "\n")


def beyond(findings: list[Finding], known: Counter[str]) -> list[Finding]:
    """Those that the baseline does not have."""
    left = known.copy()
    out = []
    for f in findings:
        if left[f.key()] > 0:
            left[f.key()] -= 1
        else:
            out.append(f)
    return out
