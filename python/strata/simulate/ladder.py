"""The classes of lifetimes of a simulation, as src/lifetime/bin_ladder.h has them, and what each
policy believes of each item: the truth, the truth with some of it wrong, what contexts taught, what
a model said, or nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strata.learn.classes import QUANTILE
from strata.simulate.items import Items

Classes = NDArray[np.uint8]


@dataclass(frozen=True)
class Ladder:
    """Class 0 is for what lives shorter than `base` ns, each further one for `ratio` times that;
    the last for all that is longer."""

    base: int
    ratio: int
    count: int

    def classes(self, lifetimes: pl.Series) -> Classes:
        """Of lifetimes in ns; null is forever."""
        bounds = [self.base * self.ratio**step for step in range(self.count - 1)]
        filled = lifetimes.cast(pl.Float64).fill_null(math.inf).to_numpy()
        return np.searchsorted(np.array(bounds, np.float64), filled, "right").astype(np.uint8)


def lifetimes(items: Items) -> pl.Series:
    return items.frame["end"] - items.frame["start"]


def oracle(items: Items, ladder: Ladder) -> Classes:
    return ladder.classes(lifetimes(items))


def nothing(items: Items) -> Classes:
    """The shortest class for all: what lives on is promoted with its bin."""
    return np.zeros(items.frame.height, np.uint8)


def noisy(items: Items, ladder: Ladder, percent: float, seed: int) -> Classes:
    """The oracle's, but of so many items any other class, each as likely."""
    classes = oracle(items, ladder)
    if ladder.count == 1:
        return classes
    random = np.random.default_rng(seed)
    wrong = random.random(classes.size) < percent / 100
    moved = random.integers(1, ladder.count, classes.size, dtype=np.uint8)
    return np.where(wrong, (classes + moved) % ladder.count, classes).astype(np.uint8)


def given(items: Items, ladder: Ladder) -> Classes:
    """By the file's column `predicted`; where it has nothing, the shortest class."""
    return ladder.classes(items.frame["predicted"].fill_null(0))


def middle(items: Items) -> int:
    """The time at which half of the run is over."""
    frame = items.frame
    begin = int(frame["start"].min())  # type: ignore[arg-type]
    ends = [value for value in (frame["start"].max(), frame["end"].max()) if value is not None]
    return (begin + max(int(value) for value in ends)) // 2  # type: ignore[arg-type]


def trained(items: Items, ladder: Ladder) -> tuple[Classes, float]:
    """Predictions learned from the first half of the run and used in the second, and of how many of
    the second's items there is one. A context is the file's and the size to a power of two; its
    class is that within which 95 % of its items ended. What had not ended by the middle had, as far
    as one could know there, no end."""
    half = middle(items)
    frame = items.frame.with_columns(
        magnitude=pl.col("size").cast(pl.Float64).log(2).ceil().cast(pl.Int16)
    )
    seen = frame.filter((pl.col("start") < half) & pl.col("context").is_not_null())
    known = pl.when(pl.col("end") < half).then(pl.col("end") - pl.col("start"))
    learned = seen.with_columns(seen=pl.Series(ladder.classes(seen.select(known).to_series())))
    place = (QUANTILE * pl.len() - 1e-9).ceil().cast(pl.Int64) - 1
    table = learned.group_by("context", "magnitude").agg(label=pl.col("seen").sort().get(place))
    labels = frame.join(table, on=["context", "magnitude"], how="left", maintain_order="left")
    second = frame["start"] >= half
    there = second & labels["label"].is_not_null()
    classes = labels["label"].fill_null(0).to_numpy().astype(np.uint8)
    share = float(there.sum()) / max(int(second.sum()), 1)
    return np.where(second.to_numpy(), classes, 0).astype(np.uint8), share
