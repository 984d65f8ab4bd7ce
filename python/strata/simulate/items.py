"""What a simulation replays: items, each with a size, a begin and perhaps an end, from a trace of
`strata trace`, CSV or Parquet. A table has a row for each item, with `start`, `end` and `size`, or
for each begin and end, with `time`, `id` and `size`; both may have `context` and `predicted`.

A frame of items has the columns start and end (ns, end null: never), size, context (what predicts
the lifetime; may be null), predicted (a lifetime in ns; may be null), and first and last: the order
in which items begin and end, as numbers of one scale."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from strata.errors import StrataError, why_refused
from strata.files import UnreadableError, open_file
from strata.simulate import events
from strata.simulate.events import MOST_SECONDS
from strata.trace.command import is_trace

NEEDED = ("start", "end", "size")
SECOND = 10**9  # in ns
TAIL = 1 << 16  # bytes: where the last line of a table lies


@dataclass(frozen=True)
class Items:
    name: str
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()  # what is wrong with the file though it could be read
    stacks: dict[int, tuple[int, ...]] = field(default_factory=dict)  # of a trace, by context
    mappings: str = ""

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
    notes = []
    if trace.damage is not None:
        notes.append(f"{path}: {trace.damage}; only what is before it is replayed")
    if trace.totals is not None and trace.totals.unknown_frees > 0:
        notes.append(f"{path}: {trace.totals.unknown_frees:,} frees of unknown blocks are left out")
    table = objects(trace)
    if table.is_empty():
        raise StrataError(f"{path}: {trace.damage or 'no allocation in it'}")
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
    return Items(str(path), frame, tuple(notes), trace.stacks, trace.mappings)


def nanoseconds(column: str) -> pl.Expr:
    return (pl.col(column) * SECOND).round().cast(pl.Int64).alias(column)


def refuse(path: Path, table: pl.DataFrame, wrong: dict[str, pl.Expr]) -> None:
    """Names the first row that makes no sense, counted from 1 without a header."""
    for what, where in wrong.items():
        rows = table.select(where.fill_null(False).arg_true().first()).item()
        if rows is not None:
            raise StrataError(f"{path}: row {rows + 1}: {what}")


def check_rows(path: Path, table: pl.DataFrame) -> None:
    start, end, size = (pl.col(name) for name in NEEDED)
    good = start.is_finite() & (start.abs() <= MOST_SECONDS)
    wrong = {
        "a start or a size is missing": start.is_null() | size.is_null(),
        "a start that is no time": ~good,
        "an end that is no time": ~(end.is_finite() & (end.abs() <= MOST_SECONDS)),
        "ends before it starts": end < start,
        "a size below 1": size < 1,
    }
    refuse(path, table, wrong)


def check_last_line(path: Path) -> None:
    """A line with fewer fields than the header would read as one whose last fields are empty."""
    with path.open("rb") as file:
        header = file.readline()
        end = file.seek(0, 2)
        file.seek(max(len(header), end - TAIL))
        lines = file.read().rstrip(b"\r\n").splitlines()
    if lines and b'"' not in lines[-1] and lines[-1].count(b",") < header.count(b","):
        raise StrataError(f"{path}: the last row is cut off")


def load_table(path: Path) -> pl.DataFrame:
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path, glob=False, hive_partitioning=False)
        check_last_line(path)
        return pl.read_csv(path, infer_schema_length=None, glob=False)
    except pl.exceptions.NoDataError as error:
        raise StrataError(f"{path}: empty") from error
    except (pl.exceptions.PolarsError, OSError) as error:
        why = str(error).splitlines()[0]
        raise StrataError(f"{path}: neither a trace nor a table: {why}") from error


def with_types(path: Path, table: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """The columns that count, as what they are read as."""
    for name in ("context", "predicted"):
        if name not in table.columns:
            table = table.with_columns(pl.lit(None).alias(name))
    texts = [name for name in ("id", "context") if name in (*names, "context")]
    numbers = [name for name in (*names, "predicted") if name not in texts]
    for name in numbers:
        is_empty = table[name].null_count() == table.height
        if not (table[name].dtype.is_numeric() or is_empty):
            raise StrataError(f"{path}: column {name} holds something that is no number")
    if table["size"].dtype.is_float():
        size = pl.col("size")
        refuse(path, table, {"a size that is no whole number": size != size.round()})
    kinds = {name: pl.Int64 if name == "size" else pl.Float64 for name in numbers}
    try:
        table = table.select(
            *(pl.col(name).cast(kind) for name, kind in kinds.items()),
            *(pl.col(name).cast(pl.String) for name in texts),
        )
    except pl.exceptions.PolarsError as error:
        raise StrataError(f"{path}: a number is beyond what a column can hold") from error
    predicted = pl.col("predicted")
    wrong = {
        "a predicted time that is no time": predicted.is_nan(),
        "a predicted time below 0": predicted < 0,
    }
    refuse(path, table, wrong)
    return table


def from_table(path: Path) -> Items:
    table = load_table(path)
    names = events.NEEDED if "id" in table.columns else NEEDED
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise StrataError(f"{path}: no column {', no column '.join(missing)}")
    if table.is_empty():
        raise StrataError(f"{path}: no rows")
    table = with_types(path, table, names)
    by_row = names is NEEDED
    if by_row:
        check_rows(path, table)
    else:
        table = events.joined(path, table)
    table = table.with_columns(pl.col("predicted").clip(upper_bound=MOST_SECONDS))
    table = table.with_columns(*(nanoseconds(name) for name in ("start", "end", "predicted")))
    if by_row:
        table = table.with_columns(first=pl.col("start"), last=pl.col("end"))
    return Items(str(path), table)


def read(path: Path) -> Items:
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise StrataError(f"{path}: empty")
        return from_trace(path) if is_trace(path) else from_table(path)
    except UnreadableError as error:
        raise StrataError(f"{path}: {error}") from error
    except OSError as error:
        raise StrataError(f"{path}: {why_refused(error)}") from error
