#!/usr/bin/env python3
"""Proves that includes in src/ point down the layers, never up and never sideways.

    {malloc, trace} -> heaps -> {cache, lifetime, hotness, profile} -> span -> hugepage -> os
    -> base

A file may include its own folder, any lower layer, and include/strata. It may not include what
allocates or prints (the containers and streams of libstdc++), nor a fake_*.h, unless it is a
fake itself: fakes lie beside the code and are for tests only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

RANK = {
    "base": 0,
    "os": 1,
    "hugepage": 2,
    "span": 3,
    "cache": 4,
    "lifetime": 4,
    "hotness": 4,
    "profile": 4,
    "heaps": 5,
    "malloc": 6,
    "trace": 6,
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ALLOCATES = frozenset(
    "any deque filesystem forward_list fstream functional future iomanip iostream istream list "
    "locale map memory_resource mutex ostream queue random regex set shared_mutex sstream stack "
    "streambuf string thread unordered_map unordered_set valarray vector".split()
)


def is_fake(name: str) -> bool:
    """Whether a file is a test double."""
    return Path(name).name.startswith("fake_")


def problem(src: Path, path: Path, kind: str, target: str) -> str | None:
    """Says what is wrong with one include of one file, if anything is."""
    layer = path.relative_to(src).parts[0]
    if is_fake(target) and not is_fake(path.name):
        return f"includes the test double {target}"
    if kind == "<":
        if target in ALLOCATES and not is_fake(path.name):
            return f"includes <{target}>, which allocates or prints"
        return None
    if target.startswith("strata/"):
        return None
    if "/" not in target:
        if (path.parent / target).exists():
            return None
        return f'includes "{target}", which is not beside it: write the path from src/'
    into = target.split("/")[0]
    if into not in RANK:
        return f'includes "{target}", whose folder is not a layer'
    if not (src / target).exists():
        return f'includes "{target}", which does not exist under src/'
    if into == layer or RANK[into] < RANK[layer]:
        return None
    way = "up" if RANK[into] > RANK[layer] else "sideways"
    return f'includes "{target}": {layer} may not include {way} into {into}'


def check(src: Path) -> Iterator[str]:
    """Yields one `file:line: message` for each include that breaks the order."""
    for path in sorted(src.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".inc"}:
            continue
        layer = path.relative_to(src).parts[0]
        if layer not in RANK:
            yield f"{path}:1: {layer} is not a layer"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            message = problem(src, path, match[1], match[2]) if match else None
            if message:
                yield f"{path}:{number}: {message}"


def main() -> int:
    """Checks the given source folder, or this project's."""
    root = Path(__file__).resolve().parent.parent
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "src"
    messages = list(check(src))
    print(*messages, sep="\n", end="\n" if messages else "", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
