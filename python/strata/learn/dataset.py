"""Merges lifetime profiles into one Parquet file: a row for each context, which is a program's
build, a stack and a size, with how many of its objects died in each class.

Each profile becomes rows in a scratch file beside the output, and Polars adds those up. In memory
are one profile and the contexts, however many profiles have them in common.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from strata.errors import StrataError
from strata.learn.classes import EDGES_NS, NAMES, class_of
from strata.pprof import Location, Profile, load, process_of
from strata.report.lifetimes import COLUMNS, counts_between

COUNTS = tuple(f"class_{at}" for at in range(1, len(NAMES) + 1))
CONTEXT = ("program", "build_id", "frames", "symbols", "bytes")
SCHEMA: dict[str, Any] = {
    "program": pl.String,
    "build_id": pl.String,
    "frames": pl.List(pl.String),
    "symbols": pl.List(pl.String),
    "bytes": pl.Int64,
    **dict.fromkeys(COUNTS, pl.Float64),
}
ROWS_A_PART = 20_000
WITHOUT_STACK = "strata_"  # begins the names of what has no stack of its own
COMMON = 0.5  # of the contexts: a function in more is part of every program's way to work


class NotLifetimesError(StrataError):
    """A profile of another kind."""


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


def names_of(place: Location) -> Iterator[str]:
    """What a frame is called in every build that has it; without a symbol, by the build and the
    place in it."""
    if place.lines or place.mapping is None or not place.mapping.build_id:
        yield from place.names()
    else:
        yield f"{place.mapping.build_id[:16]}+{place.file_address:#x}"


def symbol_of(place: Location) -> str:
    """What the running program can find out for itself of a frame: the symbol in its file's tables,
    with no inlined functions."""
    if place.lines:
        return place.lines[-1].system_name or place.lines[-1].function
    return next(names_of(place))


def rows_of(profile: Profile) -> Iterator[dict[str, object]]:
    names = [value.type for value in profile.types]
    if any(column not in names for column in (*COLUMNS, "objects", "still_live")):
        raise NotLifetimesError("no lifetime profile")
    at = {name: names.index(name) for name in (*COLUMNS, "objects", "still_live")}
    program = process_of(profile)
    build = profile.mappings[0].build_id if profile.mappings else ""
    for sample in profile.samples:
        frames = [name for place in sample.stack for name in names_of(place)]
        size = sample.label("bytes")
        if not frames or frames[-1].startswith(WITHOUT_STACK) or not isinstance(size, int):
            continue
        points = [float(sample.values[at[column]]) for column in COLUMNS]
        died = float(max(0, sample.values[at["objects"]]))
        counts = counts_between(died, points, EDGES_NS)
        counts.append(float(max(0, sample.values[at["still_live"]])))
        yield {
            "program": program,
            "build_id": build,
            "frames": frames,
            "symbols": [symbol_of(place) for place in sample.stack],
            "bytes": size,
            **dict(zip(COUNTS, counts, strict=True)),
        }


def find(sources: Iterable[Path]) -> Iterator[Path]:
    """The profiles in folders, at any depth, and files that are named."""
    for source in sources:
        if source.is_dir():
            yield from sorted(source.rglob("*.pb.gz"))
        else:
            yield source


class Parts:
    """Rows on their way through scratch files, so that few are in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[dict[str, object]] = []
        self.count = 0

    def add(self, rows: Iterable[dict[str, object]]) -> None:
        for row in rows:
            self._rows.append(row)
            if len(self._rows) >= ROWS_A_PART:
                self.flush()

    def flush(self) -> None:
        if self._rows:
            path = self._folder / f"part-{self.count:06}.parquet"
            pl.DataFrame(self._rows, schema=SCHEMA).write_parquet(path)
            self.count += 1
            self._rows = []

    def scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self._folder / "part-*.parquet")


def merge(
    sources: Iterable[Path],
    output: Path,
    split: Split,
    warn: Callable[[str], None],
) -> Merged:
    """Writes the data set. What is no lifetime profile is named in a warning and left out."""
    read = skipped = 0
    if not output.parent.is_dir():
        raise StrataError(f"{output.parent}: no such directory")
    with tempfile.TemporaryDirectory(prefix=".strata-lifetimes-", dir=output.parent) as scratch:
        parts = Parts(Path(scratch))
        for path in find(sources):
            try:
                parts.add(rows_of(load(path)))
                read += 1
            except NotLifetimesError as error:
                warn(f"{path}: {error}; left out")
                skipped += 1
            except StrataError as error:
                warn(f"{error}; left out")
                skipped += 1
        parts.flush()
        if parts.count == 0:
            raise StrataError("no lifetimes in what was named: nothing is written")
        whole = Path(scratch, "whole.parquet")
        added_up(parts.scan()).sink_parquet(whole)
        finished = Path(scratch, "finished.parquet")
        with_split(pl.scan_parquet(whole), split).sink_parquet(finished)
        summary = summed(pl.scan_parquet(finished))
        splits = dict(
            pl.scan_parquet(finished).group_by("split").len().sort("split").collect().iter_rows()
        )
        finished.replace(output)
    return Merged(read, skipped, summary, splits)


def added_up(rows: pl.LazyFrame) -> pl.LazyFrame:
    classes = pl.concat_list(COUNTS).map_elements(class_of, return_dtype=pl.Int64)
    return (
        rows.group_by(CONTEXT)
        .agg(*(pl.col(name).sum() for name in COUNTS), pl.len().alias("profiles"))
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
