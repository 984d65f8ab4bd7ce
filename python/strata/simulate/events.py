"""A table with a row for each begin and each end, time by time, becomes items."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from strata.errors import StrataError

NEEDED = ("time", "id", "size")
MOST_SECONDS = 4e9  # so that differences fit into 64 bits of ns


def check(path: Path, events: pl.DataFrame) -> None:
    """Names the first row that makes no sense, counted from 1 without a header."""
    time = pl.col("time")
    step = pl.when(pl.col("begins")).then(1).otherwise(-1).cast(pl.Int64)
    numbered = events.with_columns(there=step.cum_sum().over("id"))
    wrong = {
        "no time": time.is_null() | time.is_nan() | (time.abs() > MOST_SECONDS),
        "no id": pl.col("id").is_null(),
        "the time goes back": time < time.shift(1),
        "a negative size": pl.col("size") < 0,
        "ends what is not there, id {}": pl.col("there") < 0,
        "begins what is there already, id {}": pl.col("there") > 1,
    }
    found = []
    for what, where in wrong.items():
        row = numbered.select(where.fill_null(False).arg_true().first()).item()
        if row is not None:
            found.append((row, what.format(numbered["id"][row])))
    if found:
        row, what = min(found)
        raise StrataError(f"{path}: row {row + 1}: {what}")


def joined(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    """`start` and `end` in seconds, and `first` and `last`, the rows in which items begin and end.
    A row without a size, or with 0, ends the item."""
    events = table.with_row_index("row").with_columns(
        row=pl.col("row").cast(pl.Int64), begins=pl.col("size").fill_null(0) > 0
    )
    check(path, events.with_columns(size=pl.col("size").fill_null(0)))
    # an id may come again when it has ended
    events = events.with_columns(time_of_id=pl.col("begins").cum_sum().over("id"))
    key = ["id", "time_of_id"]
    ends = events.filter(~pl.col("begins")).select(*key, end="time", last="row")
    begins = events.filter("begins").rename({"time": "start", "row": "first"})
    return begins.join(ends, on=key, how="left", maintain_order="left").select(
        "start", "end", "size", "context", "predicted", "first", "last"
    )
