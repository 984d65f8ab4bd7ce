"""What a trace tells: objects with their lifetimes, bytes live over time, sizes, threads."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strata.trace.format import Operation
from strata.trace.read import Trace

FREE = int(Operation.FREE)


def objects(trace: Trace) -> pl.DataFrame:
    """One row an object: size, stack, thread, born (ns), born_at and died_at (sequence), and of
    those that ended also died (ns), freed_by (thread), lifetime (ns) and lifetime_bytes, which is
    how much was allocated meanwhile."""
    events = trace.events
    clock = events.with_columns(allocated=pl.col("size").cum_sum())
    births = clock.filter(pl.col("operation") != FREE).select(
        pl.col("sequence").alias("born_at"),
        "size",
        "stack",
        "thread",
        pl.col("time").alias("born"),
        "allocated",
    )
    deaths = clock.filter(pl.col("object") != 0).select(
        pl.col("object").alias("born_at"),
        pl.col("sequence").alias("died_at"),
        pl.col("time").alias("died"),
        pl.col("thread").alias("freed_by"),
        # a realloc's own bytes are not there yet when the old block ends
        (pl.col("allocated") - pl.col("size")).alias("allocated_then"),
    )
    deaths = deaths.unique("born_at", keep="first", maintain_order=True)
    joined = births.join(deaths, on="born_at", how="left", maintain_order="left")
    signed = pl.Int64
    return joined.with_columns(
        lifetime=(pl.col("died").cast(signed) - pl.col("born").cast(signed)).clip(0),
        lifetime_bytes=pl.col("allocated_then") - pl.col("allocated"),
    ).drop("allocated", "allocated_then")


def live_bytes(trace: Trace) -> NDArray[np.int64]:
    """Bytes live after each event, as asked for."""
    events = trace.events
    sizes = events.filter(pl.col("operation") != FREE).select(
        pl.col("sequence").alias("object"), pl.col("size").alias("ended")
    )
    first = pl.col("object").is_first_distinct() & (pl.col("object") != 0)
    ended = (
        events.with_columns(object=pl.when(first).then(pl.col("object")).otherwise(0))
        .join(sizes, on="object", how="left", maintain_order="left")["ended"]
        .fill_null(0)
    )
    change = events["size"].to_numpy().astype(np.int64) - ended.to_numpy().astype(np.int64)
    result: NDArray[np.int64] = np.cumsum(change)
    return result


def by_power_of_two(values: pl.Series, weights: pl.Series | None = None) -> list[tuple[int, int]]:
    """How many (or how much) lie in each bucket (2^(k-1), 2^k], from the smallest: [(2^k, n)]."""
    numbers = values.to_numpy().astype(np.float64)
    tops = np.ceil(np.log2(np.maximum(numbers, 1))).astype(np.int64)
    counts = np.bincount(tops, None if weights is None else weights.to_numpy().astype(np.float64))
    return [(1 << k, round(float(n))) for k, n in enumerate(counts) if n]
