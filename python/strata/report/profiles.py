"""Profiles as data frames: a row for each (stack, labels), a column for each value.

Sits between the profile.proto reader (strata.pprof) and the report's figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.pprof import Profile as ReadProfile
from strata.pprof import load, process_of
from strata.pprof.sites import Stack, call_site
from strata.symbolize import Warn, symbolize

MOST_VALUE = 1 << 60
LABELS: dict[str, type[int] | type[str]] = {
    "bytes": int,
    "level": str,
    "file": str,
    "age_s": int,
    "predicted_class": int,
}


@dataclass(frozen=True)
class Profile:
    """One profile. `rows` has the columns `stack` (an index of `stacks`), the values and labels."""

    kind: str
    seconds: float  # how long was looked; 0 if it is a snapshot or unknown
    stacks: list[Stack]
    rows: pl.DataFrame
    process: str = ""  # what it was called, if the profile says so

    def has(self, *columns: str) -> bool:
        return not self.rows.is_empty() and set(columns) <= set(self.rows.columns)

    def total(self, column: str) -> int:
        """The sum, by floating point: one that a hostile file makes too large must not wrap."""
        return int(self.rows[column].cast(pl.Float64).sum()) if self.has(column) else 0

    def top(self, column: str, count: int, among: pl.DataFrame | None = None) -> list[Top]:
        """The functions that own the most of a column, each with its share of the whole and the
        call stacks that lead to it, the heaviest first."""
        rows = self.rows if among is None else among
        if rows.is_empty() or column not in rows.columns:
            return []
        amounts = rows.select("stack", pl.col(column).cast(pl.Float64))
        whole = float(amounts[column].sum())
        by_stack = (
            amounts.group_by("stack")
            .agg(pl.col(column).sum())
            .filter(pl.col(column) > 0)
            .sort(column, "stack", descending=[True, False])
        )
        found: dict[str, list[tuple[Stack, float]]] = {}
        for at, value in by_stack.iter_rows():
            found.setdefault(call_site(self.stacks[at]), []).append((self.stacks[at], value))
        sums = {site: sum(value for _, value in stacks) for site, stacks in found.items()}
        best = sorted(sums, key=lambda site: -sums[site])[:count]
        return [
            Top(
                found[site][0][0],
                int(sums[site]),
                sums[site] / whole,
                site,
                tuple((stack, int(value)) for stack, value in found[site]),
            )
            for site in best
        ]

    def of_site(self, site: str) -> pl.DataFrame:
        """The rows of a function, by whatever way it was called."""
        return self.of_stacks([stack for stack in self.stacks if call_site(stack) == site])

    def of_stacks(self, stacks: Sequence[Stack]) -> pl.DataFrame:
        """The rows of these call stacks."""
        wanted = set(stacks)
        places = [at for at, stack in enumerate(self.stacks) if stack in wanted]
        return self.rows.filter(pl.col("stack").is_in(places))


@dataclass(frozen=True)
class Top:
    """A function's part of something, by one call stack or several."""

    stack: Stack  # the heaviest
    value: int
    share: float
    name: str = ""  # a better one than the innermost function's
    stacks: tuple[tuple[Stack, int], ...] = ()  # all, with what each has of the value

    @property
    def site(self) -> str:
        return self.name or call_site(self.stack)


def build(
    kind: str,
    seconds: float,
    samples: Iterable[tuple[Stack, dict[str, int], dict[str, int | str]]],
    process: str = "",
) -> Profile:
    """A profile of (stack, values, labels); equal stacks get one index."""
    index: dict[Stack, int] = {}
    records: list[dict[str, int | str]] = []
    for stack, values, labels in samples:
        records.append({**labels, **values, "stack": index.setdefault(stack, len(index))})
    # An empty one has that column, too: sections look each other's stacks up.
    schema = None if records else {"stack": pl.Int64}
    rows = pl.DataFrame(records, schema, infer_schema_length=None)
    return Profile(kind, seconds, list(index), rows, process)


def read_profile(kind: str, path: Path, warn: Warn) -> Profile:
    """A profile.proto file, gzipped or not, with numbers brought into bounds. What the library
    itself wrote gets its names here."""
    return as_rows(kind, symbolize(load(path), warn=warn), str(path))


def as_rows(kind: str, read: ReadProfile, path: str) -> Profile:
    names = [value.type for value in read.types]
    if len(set(names)) < len(names) or {"stack", *LABELS} & set(names):
        raise StrataError(f"{path}: its values are named strangely: {', '.join(names)}")
    samples = []
    for sample in read.samples:
        values = [min(max(value, 0), MOST_VALUE) for value in sample.values]
        labels: dict[str, int | str] = {}
        for key, kept in LABELS.items():
            value = sample.label(key)
            labels[key] = value if isinstance(value, kept) else kept()
        stack = tuple(name for location in sample.stack for name in location.names())
        samples.append((stack, dict(zip(names, values, strict=True)), labels))
    return build(kind, read.duration_ns / 1e9, samples, process_of(read))
