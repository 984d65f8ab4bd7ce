"""Reads a data set of `strata lifetimes` that may be anybody's: the columns that training needs,
with their types, and no value that makes no sense."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.files import UnreadableError, open_file
from strata.learn.classes import NEVER
from strata.learn.rows import COUNTS, SUMS

TEXT, WHOLE, NUMBER = pl.String(), pl.Int64(), pl.Float64()
COLUMNS: dict[str, pl.DataType] = {
    "symbols": pl.List(TEXT),
    "bytes": WHOLE,
    "label": WHOLE,
    "split": TEXT,
    "objects": NUMBER,
    "weight": NUMBER,
    "program": TEXT,
    "build_id": TEXT,
    **dict.fromkeys(SUMS, NUMBER),
}
SPLITS = ("train", "test", "neither")
TOO_MANY = 1e30  # so that float32 holds sums of them


def read(path: Path) -> pl.DataFrame:
    try:
        open_file(path).close()  # no pipe is waited for, no device read without end
        table = pl.read_parquet(path, glob=False, hive_partitioning=False)
    except UnreadableError as error:
        raise StrataError(f"{path}: {error}") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise StrataError(f"{path}: not a data set ({reason})") from error
    found = table.schema
    if not all(name in found and fits(found[name], kind) for name, kind in COLUMNS.items()):
        raise StrataError(f"{path}: not a data set of this version of strata lifetimes")
    try:
        table = table.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
    except pl.exceptions.PolarsError as error:
        raise StrataError(f"{path}: a number is beyond what a column can hold") from error
    check(path, table)
    return table


def fits(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Numbers of any width."""
    if wanted == WHOLE:
        return found.is_integer()
    return found.is_numeric() if wanted == NUMBER else found == wanted


def check(path: Path, table: pl.DataFrame) -> None:
    """Names the first row that makes no sense, counted from 1."""
    names = pl.col("symbols")
    wrong = {f"{name} is missing": pl.col(name).is_null() for name in COLUMNS} | {
        "a frame without a name": names.list.eval(pl.element().is_null()).list.any(),
        "bytes below 1": pl.col("bytes") < 1,
        f"a label that is none of 1 to {NEVER}": ~pl.col("label").is_between(1, NEVER),
        "a split that is none of " + ", ".join(SPLITS): ~pl.col("split").is_in(SPLITS),
        f"objects that are no number above 0 and below {TOO_MANY:g}": ~positive("objects"),
        f"a weight that is no number above 0 and below {TOO_MANY:g}": ~positive("weight"),
        f"counts below 0, or all 0, or not below {TOO_MANY:g}": ~counted(),
    }
    for what, where in wrong.items():
        row = table.select(where.fill_null(False).arg_true().first()).item()
        if row is not None:
            raise StrataError(f"{path}: row {row + 1}: {what}")


def positive(name: str) -> pl.Expr:
    return (pl.col(name) > 0) & (pl.col(name) < TOO_MANY)  # which NaN, the greatest, is not


def counted() -> pl.Expr:
    """None below 0, not all of them 0."""
    each = [(pl.col(name) >= 0) & (pl.col(name) < TOO_MANY) for name in SUMS]
    return pl.all_horizontal(each) & (pl.sum_horizontal(COUNTS) > 0)
