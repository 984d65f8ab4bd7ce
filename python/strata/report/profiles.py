"""Profiles as data frames: a row for each (stack, labels), a column for each value.

Sits between the profile.proto reader (strata.pprof) and the report's figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.pprof import Profile as ReadProfile
from strata.pprof import load, process_of

Stack = tuple[str, ...]  # function names, innermost first
MOST_VALUE = 1 << 60
LABELS: dict[str, type[int] | type[str]] = {
    "bytes": int,
    "level": str,
    "file": str,
    "age_s": int,
    "predicted_class": int,
}
MOST_NAME = 80  # characters of a name in a sentence; templates have thousands

# Functions that only pass a request on: the call site worth naming is whoever called them.
WRAPPER = re.compile(
    r"^(?:strata::.*|_*(?:libc_)?(?:malloc|calloc|realloc|reallocarray|aligned_alloc|memalign|posix_memalign"
    r"|valloc|strn?dup|asprintf|vasprintf)"
    r"|operator new.*|_Zn[wa].*|std::.*|__gnu_cxx::.*|_ZN?K?St.*|_ZN9__gnu_cxx.*"
    r"|z(?:try)?(?:malloc|calloc|realloc)\w*|x(?:malloc|calloc|realloc|strdup|zmalloc)\w*"
    r"|g_(?:malloc|slice_alloc|realloc|strdup)\w*|(?:PyMem|PyObject|_PyMem|_PyObject)_\w*[Aa]lloc\w*"
    r"|alloc::.*|__rust_\w*alloc\w*|__rdl_\w*|sds(?:new|MakeRoom)\w*|_sds(?:new|MakeRoom)\w*)"
    r"(?:@.*|\.\w+)*$"
)
UNKNOWN = "an unknown caller"
NAMELESS = re.compile(r"[@+]0x[0-9a-f]+$|^0x[0-9a-f]+$")  # a place in a stripped file


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
        """The stacks with the most of a column, and each one's share of the whole."""
        rows = self.rows if among is None else among
        if rows.is_empty() or column not in rows.columns:
            return []
        amounts = rows.select("stack", pl.col(column).cast(pl.Float64))
        whole = float(amounts[column].sum())
        best = (
            amounts.group_by("stack")
            .agg(pl.col(column).sum())
            .filter(pl.col(column) > 0)
            .sort(column, "stack", descending=[True, False])
            .head(count)
        )
        return [Top(self.stacks[at], int(value), value / whole) for at, value in best.iter_rows()]


@dataclass(frozen=True)
class Top:
    """One call stack's part of something."""

    stack: Stack
    value: int
    share: float
    name: str = ""  # a better one than the innermost function's

    @property
    def site(self) -> str:
        return self.name or call_site(self.stack)


def call_site(stack: Sequence[str]) -> str:
    """The innermost function that is not merely a wrapper of malloc, fit for a sentence."""
    callers = [name for name in stack if not WRAPPER.match(name)]
    if not callers:  # the library itself: sampled before it could walk stacks
        return stack[0] if stack and not stack[0].startswith("strata::") else UNKNOWN
    if not NAMELESS.search(callers[0]):
        return shorten(callers[0])
    named = next((name for name in callers if not NAMELESS.search(name)), None)
    return shorten(callers[0]) + (f" (under {shorten(named)})" if named else "")


def shorten(name: str) -> str:
    half = MOST_NAME // 2
    return name if len(name) <= MOST_NAME else f"{name[:half]}…{name[-half:]}"


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
    rows = pl.DataFrame(records, infer_schema_length=None)
    return Profile(kind, seconds, list(index), rows, process)


def read_profile(kind: str, path: Path) -> Profile:
    """A profile.proto file, gzipped or not, with numbers brought into bounds."""
    return as_rows(kind, load(path), str(path))


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
