"""What a model of `strata train` says of the stacks of a trace, by the rule of docs/model-
format.md. The files that ran are asked for their symbols; a file that is gone, or was changed
since, has none."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from strata.learn.classes import EDGES_NS
from strata.learn.evaluate import Predictor
from strata.learn.model_file import Model
from strata.learn.tokens import at_site
from strata.objfile import ObjectFile
from strata.simulate.items import Items
from strata.simulate.ladder import Classes, Ladder
from strata.symbolize import nameless

LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+ +(/.*)")
LARGEST_CLASS = 256 << 10
LARGEST_UNSHIFTED = 16 << 10
SHIFT = 128  # what larger classes have less than their step says, save powers of two
PAGE = 8192
FOREVER = float("inf")
# of the model's classes, a lifetime within each; `longer` is a decade like the others
LIFETIMES = (*(edge - 1 for edge in EDGES_NS), 10 * EDGES_NS[-1] - 1, FOREVER)


def class_size(size: int) -> int:
    """What the allocator makes of a size, src/span/size_classes.h: models know sizes by this."""
    if size <= 8:
        return 8
    if size <= 128:
        return -(-size // 16) * 16
    if size > LARGEST_CLASS:
        return -(-size // PAGE) * PAGE
    step = (1 << (size - 1).bit_length()) // 16
    whole = -(-size // step) * step
    if whole <= LARGEST_UNSHIFTED or whole & (whole - 1) == 0:
        return whole
    return whole - SHIFT if size <= whole - SHIFT else class_size(whole + 1)


@dataclass(frozen=True)
class Mapped:
    start: int
    end: int
    offset: int
    path: str


class Symbols:
    """Names for the addresses of one recorded process."""

    def __init__(self, maps: str) -> None:
        found = (LINE.match(line) for line in maps.splitlines())
        rows = (match.groups() for match in found if match)
        self._mapped = sorted(
            (Mapped(int(a, 16), int(b, 16), int(offset, 16), path) for a, b, offset, path in rows),
            key=lambda row: row.start,
        )
        self._files: dict[str, ObjectFile | None] = {}
        self._names: dict[int, str] = {}

    def name(self, returns_to: int) -> str:
        """Of the function that has a call before this address; empty if nobody knows."""
        if returns_to not in self._names:
            self._names[returns_to] = self._look_up(returns_to - 1)
        return self._names[returns_to]

    def _look_up(self, address: int) -> str:
        at = bisect_right(self._mapped, address, key=lambda row: row.start) - 1
        if at < 0 or address >= self._mapped[at].end:
            return ""
        row = self._mapped[at]
        if row.path not in self._files:
            self._files[row.path] = ObjectFile.open(Path(row.path))
        file = self._files[row.path]
        place = address - row.start + row.offset
        virtual = file.virtual(place) if file is not None else None
        if file is None or virtual is None:
            return ""
        name = file.symbol(virtual) or nameless(file, virtual)
        if not name and file.build_id:
            name = f"{file.build_id[:16]}+{place:#x}"
        return at_site(name, file.build_id, place) if name else ""


def predicted(items: Items, ladder: Ladder, model: Model) -> Classes:
    """Of an item without a stack nothing is known: it is of the shortest class."""
    symbols = Symbols(items.mappings)
    predictor = Predictor(model)
    known = items.frame.select("context", "size").with_row_index("item")
    pairs = known.drop_nulls("context").select("context", "size").unique(maintain_order=True)
    lifetimes = []
    for context, size in pairs.iter_rows():
        names = tuple(map(symbols.name, items.stacks.get(int(context), ())))
        lifetimes.append(LIFETIMES[predictor.class_of(names, class_size(size)) - 1])
    pairs = pairs.with_columns(lifetime=pl.Series(lifetimes, dtype=pl.Float64))
    joined = known.join(pairs, on=["context", "size"], how="left", maintain_order="left")
    return ladder.classes(joined["lifetime"].fill_null(0.0))
