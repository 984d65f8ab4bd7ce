"""Merges lifetime profiles and recordings of all calls into one Parquet file: a row for each
context, which is a program's build, a stack and a size, with how many of its objects died in each
class.

Profiles are added up as they are read. Beyond so many contexts what there is goes to a scratch file
beside the output, and Polars adds those up: in memory are one profile and some contexts, however
many profiles have them in common.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import add
from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.files import check_output, check_there
from strata.learn.classes import class_of
from strata.learn.rows import (
    CONTEXT,
    COUNTS,
    SCHEMA,
    SUMS,
    NotLifetimesError,
    Read,
    rows_of_file,
)

CONTEXTS_A_PART = 10_000
MOST_NAMED = 20  # files that are left out
COMMON = 0.5  # of the contexts: a function in more is part of every program's way to work


@dataclass(frozen=True)
class Split:
    """Which functions no model sees before its test: a share of those that allocate, by name."""

    share: float
    seed: int

    def holds_out(self, function: str) -> bool:
        digest = hashlib.sha256(f"{self.seed}:{function}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2**64


@dataclass(frozen=True)
class Merged:
    """What became of the files."""

    profiles: int
    skipped: int
    table: pl.DataFrame  # by class: contexts, objects, bytes
    splits: dict[str, int]


def find(sources: Iterable[Path]) -> Iterator[Path]:
    """The profiles in folders, at any depth, and files that are named."""
    for source in sources:
        if source.is_dir():
            yield from sorted(source.rglob("*.pb.gz"))
        else:
            yield source


Key = tuple[object, ...]


def key_of(row: dict[str, object]) -> Key:
    """The context, as what a dictionary takes."""
    return tuple(tuple(x) if isinstance(x, list) else x for x in (row[name] for name in CONTEXT))


class Parts:
    """Contexts on their way through scratch files, so that few are in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: dict[Key, list[float]] = {}  # of the classes, and how many rows that were
        self.count = 0

    def add(self, rows: Iterable[dict[str, object]]) -> None:
        for row in rows:
            counts = [*(row[name] for name in SUMS), 1.0]
            sums = self._sums.setdefault(key_of(row), [0.0] * len(counts))
            sums[:] = map(add, sums, counts)
            if len(self._sums) >= CONTEXTS_A_PART:
                self.flush()

    def flush(self) -> None:
        if self._sums:
            path = self._folder / f"part-{self.count:06}.parquet"
            rows = ([*key, *sums] for key, sums in self._sums.items())
            pl.DataFrame(
                rows, schema=SCHEMA | {"profiles": pl.Float64}, orient="row"
            ).write_parquet(path)
            self.count += 1
            self._sums = {}

    def scan(self) -> pl.LazyFrame:
        # named one by one, so that no sign in the folder's name is taken for a pattern
        parts = [self._folder / f"part-{number:06}.parquet" for number in range(self.count)]
        return pl.scan_parquet(parts, glob=False, hive_partitioning=False)


def read_one(path: Path) -> Read:
    try:
        return rows_of_file(path)
    except NotLifetimesError as error:
        return Read([], f"{path}: {error}")
    except StrataError as error:
        return Read([], str(error))


def merge(
    sources: Iterable[Path],
    output: Path,
    split: Split,
    warn: Callable[[str], None],
    read_all: Callable[[Iterable[Path]], Iterable[Read]] | None = None,
) -> Merged:
    """Writes the data set. What is no lifetime profile is named in a warning and left out.
    `read_all` reads the files, in this process or in others (strata/learn/cluster.py)."""
    sources = list(sources)
    for source in sources:
        check_there(source)
    check_output(output)
    read, nameless, complaints = 0, 0, []
    kinds = {True: 0, False: 0}  # profiles by whether they count by class
    try:
        with tempfile.TemporaryDirectory(prefix=".strata-lifetimes-", dir=output.parent) as scratch:
            parts = Parts(Path(scratch))
            files = find(sources)
            for one in read_all(files) if read_all else map(read_one, files):
                if one.complaint:
                    complaints.append(one.complaint)
                    continue
                parts.add(one.rows)
                read += 1
                if one.rows and one.by_class is not None:
                    kinds[one.by_class] += 1
                    nameless += one.nameless
            parts.flush()
            if parts.count == 0:
                raise StrataError(nothing_in(complaints))
            say_what_is_odd(complaints, kinds, nameless, warn)
            table, splits = finished(parts.scan(), split, Path(scratch), output)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StrataError(f"{output}: {why.splitlines()[0].lower()}") from error
    return Merged(read, len(complaints), table, splits)


def say_what_is_odd(
    complaints: list[str], kinds: dict[bool, int], nameless: int, warn: Callable[[str], None]
) -> None:
    for complaint in complaints[:MOST_NAMED]:
        warn(f"{complaint}; left out")
    if len(complaints) > MOST_NAMED:
        warn(f"{len(complaints) - MOST_NAMED:,} more files are left out")
    if nameless:
        warn(
            f"{nameless:,} of {sum(kinds.values()):,} profiles have no function names, nor are "
            "their files here: strata symbolize FILE -o FILE, on their machine"
        )
    if all(kinds.values()):
        warn(
            f"{kinds[False]:,} of {sum(kinds.values()):,} profiles come from an older version, "
            "which has only quantiles: their classes are guessed between them"
        )


def nothing_in(complaints: list[str]) -> str:
    if not complaints:
        return "no lifetimes in what was named"
    others = f", and {len(complaints) - 1:,} more files" if len(complaints) > 1 else ""
    return f"{complaints[0]}{others}"


def finished(
    rows: pl.LazyFrame, split: Split, scratch: Path, output: Path
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Puts the data set in its place; its contents by class, and by split."""
    whole = scratch / "whole.parquet"
    added_up(rows).sink_parquet(whole)
    made = scratch / "finished.parquet"
    with_split(scan(whole), split).sink_parquet(made)
    summary = summed(scan(made))
    splits = dict(scan(made).group_by("split").len().sort("split").collect().iter_rows())
    made.replace(output)
    return summary, splits


def scan(path: Path) -> pl.LazyFrame:
    """No sign in the name is taken for a pattern."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def added_up(rows: pl.LazyFrame) -> pl.LazyFrame:
    classes = pl.concat_list(COUNTS).map_elements(class_of, return_dtype=pl.Int64)
    return (
        rows.group_by(CONTEXT)
        .agg(*(pl.col(name).sum() for name in SUMS), pl.col("profiles").sum().cast(pl.UInt32))
        .with_columns(label=classes, objects=pl.sum_horizontal(COUNTS))
        .filter(pl.col("label") > 0)
        .with_columns(weight=pl.col("objects") * pl.col("bytes"))
        .sort(CONTEXT)
    )


def with_split(contexts: pl.LazyFrame, split: Split) -> pl.LazyFrame:
    """`test`: the function that allocates was held out. `train`: none on the stack was. `neither`:
    one further out was, so a model must not learn from it. A function that most contexts pass
    through (main, a program's own wrapper of malloc) does not count as the one that allocates."""
    count = contexts.select(pl.len()).collect().item()
    functions = (
        contexts.select(pl.col("frames").list.unique().alias("function"))
        .explode("function")
        .group_by("function")
        .len()
        .collect()
    )
    common = functions.filter(pl.col("len") > COMMON * count)["function"].to_list()
    own = pl.col("frames").list.eval(pl.element().filter(~pl.element().is_in(common)))
    site = own.list.first()
    sites = contexts.select(site.alias("site").unique()).collect()["site"].drop_nulls()
    held = [function for function in sites if split.holds_out(function)]
    any_held = pl.col("frames").list.eval(pl.element().is_in(held)).list.any()
    return contexts.with_columns(
        split=pl.when(site.is_in(held).fill_null(value=False))
        .then(pl.lit("test"))
        .when(any_held)
        .then(pl.lit("neither"))
        .otherwise(pl.lit("train"))
    )


def summed(contexts: pl.LazyFrame) -> pl.DataFrame:
    return (
        contexts.group_by("label")
        .agg(
            pl.len().alias("contexts"),
            pl.col("objects").sum().alias("objects"),
            pl.col("weight").sum().alias("bytes"),
        )
        .sort("label")
        .collect()
    )
