"""What a simulation replays: items, each with a size, a begin and perhaps an end, from a trace of
`strata trace`, CSV or Parquet.

A frame of items has the columns start and end (ns, end null: never), size, context (what predicts
the lifetime; may be null), predicted (a lifetime in ns; may be null), and first and last: the order
in which items begin and end, as numbers of one scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.trace.command import is_trace

NEEDED = ("start", "end", "size")
SECOND = 10**9  # in ns
MOST_SECONDS = 9e9  # what fits into 64 bits of ns


@dataclass(frozen=True)
class Items:
    name: str
    frame: pl.DataFrame
    note: str | None = None  # what is wrong with the file though it could be read

    @property
    def has_contexts(self) -> bool:
        return self.frame["context"].null_count() < self.frame.height

    @property
    def has_predictions(self) -> bool:
        return self.frame["predicted"].null_count() < self.frame.height


def from_trace(path: Path) -> Items:
    from strata.trace.analyze import objects
    from strata.trace.read import read_trace

    trace = read_trace(path)
    note = None
    if trace.damage is not None:
        note = f"{path}: {trace.damage}; only what is before it is replayed"
    table = objects(trace)
    if table.is_empty():
        raise StrataError(f"{path}: {trace.damage or 'no allocation in it'}", 1)
    start = pl.col("born").cast(pl.Int64)
    frame = table.select(
        start=start,
        end=start + pl.col("lifetime"),
        size=pl.col("size").cast(pl.Int64),
        context=pl.when(pl.col("stack") != 0).then(pl.col("stack").cast(pl.String)),
        predicted=pl.lit(None, pl.Int64),
        first=pl.col("born_at").cast(pl.Int64),
        last=pl.col("died_at").cast(pl.Int64),
    )
    return Items(str(path), frame, note)


def nanoseconds(column: str) -> pl.Expr:
    return (pl.col(column) * SECOND).round().cast(pl.Int64).alias(column)


def check_rows(path: Path, table: pl.DataFrame) -> None:
    """Names the first row that makes no sense, counted from 1 without a header."""
    start, end, size = (pl.col(name) for name in NEEDED)
    good = start.is_finite() & (start.abs() <= MOST_SECONDS)
    wrong = {
        "a start or a size is missing": start.is_null() | size.is_null(),
        "a start that is no time": ~good,
        "an end that is no time": ~(end.is_finite() & (end.abs() <= MOST_SECONDS)),
        "ends before it starts": end < start,
        "a size below 1": size < 1,
    }
    for what, where in wrong.items():
        rows = table.select(where.fill_null(False).arg_true().first()).item()
        if rows is not None:
            raise StrataError(f"{path}: row {rows + 1}: {what}", 1)


def from_table(path: Path) -> Items:
    parquet = path.suffix == ".parquet"
    try:
        table = pl.read_parquet(path) if parquet else pl.read_csv(path, infer_schema_length=None)
    except pl.exceptions.NoDataError as error:
        raise StrataError(f"{path}: empty", 1) from error
    except (pl.exceptions.PolarsError, OSError) as error:
        why = str(error).splitlines()[0]
        raise StrataError(f"{path}: neither a trace nor a table: {why}", 1) from error
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise StrataError(f"{path}: no column {' and no column '.join(missing)}", 1)
    if table.is_empty():
        raise StrataError(f"{path}: no rows", 1)
    for name in ("context", "predicted"):
        if name not in table.columns:
            table = table.with_columns(pl.lit(None).alias(name))
    numbers = {"start": pl.Float64, "end": pl.Float64, "size": pl.Int64, "predicted": pl.Float64}
    try:
        table = table.select(
            *(pl.col(name).cast(kind) for name, kind in numbers.items()),
            pl.col("context").cast(pl.String),
        )
    except pl.exceptions.PolarsError as error:
        names = [n for n in numbers if not (table[n].dtype.is_numeric() or table[n].dtype == pl.Null)]
        what = f"column {names[0]} holds" if names else "a column holds"
        raise StrataError(f"{path}: {what} something that is no number", 1) from error
    check_rows(path, table)
    table = table.with_columns(pl.col("predicted").clip(0, MOST_SECONDS))
    table = table.with_columns(*(nanoseconds(name) for name in ("start", "end", "predicted")))
    return Items(str(path), table.with_columns(first=pl.col("start"), last=pl.col("end")))


def read(path: Path) -> Items:
    if path.is_dir() or not path.exists():
        raise StrataError(f"{path}: " + ("is a directory" if path.is_dir() else "no such file"))
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise StrataError(f"{path}: empty", 1)
        return from_trace(path) if is_trace(path) else from_table(path)
    except OSError as error:
        raise StrataError(f"{path}: {(error.strerror or str(error)).lower()}", 1) from error
