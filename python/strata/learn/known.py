"""What was recorded of the stacks themselves: a model says it of the same stack and size again, and
its network speaks of what is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from strata.learn.classes import class_of
from strata.learn.model_file import MOST_KNOWN, OF, Known, hash_of_stack
from strata.learn.rows import COUNTS, SUMS

KEYS = ["symbols", "bytes"]
FEWEST = 4  # samples: of fewer the network, which knows stacks like it, is right more often
WORTH = 4  # samples that the network's shares count as


def merged(table: pl.DataFrame) -> pl.DataFrame:
    """A row for each stack and size; inlined functions, which a stack does not show, made more."""
    sums = table.group_by(KEYS, maintain_order=True).agg(pl.col(*SUMS, "weight").sum())
    labels = [class_of(row) for row in sums.select(COUNTS).to_numpy().tolist()]
    return sums.with_columns(
        label=pl.Series(labels, dtype=pl.Int64), objects=pl.sum_horizontal(COUNTS)
    )


def shares_of(counts: npt.NDArray[np.float64]) -> bytes:
    """Whole numbers that add up to OF: what is cut off goes where most of it was."""
    exact = counts * (OF / counts.sum())
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: OF - whole.sum()]] += 1
    return bytes(whole.tolist())


def stacks(
    table: pl.DataFrame, network: Callable[[Sequence[str], int], npt.NDArray[np.float32]]
) -> dict[int, Known]:
    """Those with the most bytes, if they are too many. Few samples say little of the shares:
    the network, which says those of a stack and a size, adds to them."""
    enough = pl.col("samples") > FEWEST - 0.5  # an estimate
    kept = merged(table).filter(enough, pl.col("label") > 0, pl.col("symbols").list.len() > 0)
    kept = kept.sort("weight", descending=True, maintain_order=True).head(MOST_KNOWN)
    counts = kept.select(COUNTS).to_numpy()
    seen = kept["samples"].to_numpy()[:, None] * counts / counts.sum(axis=1, keepdims=True)
    rows = zip(kept["symbols"].to_list(), kept["bytes"], kept["label"], seen, strict=True)
    return {
        hash_of_stack(symbols, size): Known(label, shares_of(each + WORTH * network(symbols, size)))
        for symbols, size, label, each in rows
    }
