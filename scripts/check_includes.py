#!/usr/bin/env python3
"""Proves that includes in src/ point down the layers, never up, never sideways, never in a circle.

    control -> {regions, report} -> {malloc, trace} -> heaps
    -> {cache, lifetime, price, profile} -> span -> hugepage -> os -> base

A file may include its own folder, any lower layer, and include/strata; nothing includes trace,
which is a library of its own. It must not include what allocates or prints (the containers and
streams of libstdc++), nor a fake_*.h, unless it is a fake itself: fakes lie beside the code and are
for tests only. Nor may it include itself by way of others, in src/ or in include/strata.
"""

from __future__ import annotations

import os
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
    "hotness": 4,
    "lifetime": 4,
    "price": 4,
    "profile": 4,
    "heaps": 5,
    "malloc": 6,
    "trace": 6,
    "regions": 7,
    "report": 7,
    "control": 8,
}
# Nothing but itself includes it.
APART = "trace"
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
    if into == layer or (RANK[into] < RANK[layer] and into != APART):
        return None
    way = "up" if RANK[into] > RANK[layer] else "sideways"
    return f'includes "{target}": {layer} must not include {way} into {into}'


def sources(root: Path) -> list[Path]:
    """The files below a folder that include or are included."""
    return sorted(path for path in root.rglob("*") if path.suffix in {".h", ".cpp", ".inc"})


def included(path: Path, roots: tuple[Path, ...]) -> Iterator[tuple[int, Path]]:
    """Yields the line and the file of each include that leads into these folders."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        for folder in (path.parent, *roots):
            target = (folder / match[2]).resolve()
            if target.is_file() and any(target.is_relative_to(root) for root in roots):
                yield number, target
                break


def way(start: Path, to: Path, edges: dict[Path, list[tuple[int, Path]]]) -> list[Path] | None:
    """The shortest way from file to file along the includes; None where there is none."""
    came: dict[Path, Path] = {}
    queue = [start]
    for at in queue:
        if at == to:
            path = [at]
            while path[-1] != start:
                path.append(came[path[-1]])
            return path[::-1]
        for _, target in edges.get(at, []):
            if target != start and target not in came:
                came[target] = at
                queue.append(target)
    return None


def cycles(src: Path, public: Path) -> Iterator[str]:
    """Yields one message for each include that leads back to the file that has it."""
    src, public = src.resolve(), public.resolve()
    files = sources(src) + sources(public)
    edges = {path: list(included(path, (src, public))) for path in files}
    name = {path: os.path.relpath(path, src.parent) for path in files}
    for path in files:
        for number, target in edges[path]:
            back = way(target, path, edges)
            if back is None:
                continue
            circle = " -> ".join(name[step] for step in back)
            yield f"{path}:{number}: includes itself: {name[path]} -> {circle}"


def check(src: Path) -> Iterator[str]:
    """Yields one `file:line: message` for each include that breaks the order."""
    for path in sources(src):
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
    messages = [*check(src), *cycles(src, root / "include" / "strata")]
    print(*messages, sep="\n", end="\n" if messages else "", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
