"""Lifetimes by object size (Z. Zhou et al., ASPLOS 2024, Fig. 8), from the quantiles that the
profile keeps.

Between two neighbouring quantiles of a row the objects are taken to lie evenly on a logarithmic
scale. That is exact at the quantiles, and between them nothing more is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import polars as pl

from strata.learn.classes import EDGES_NS

MS = 1_000_000
SECOND = 1000 * MS
EDGES = (MS, 100 * MS, SECOND, 10 * SECOND, 60 * SECOND)  # nanoseconds
NAMES = ("< 1 ms", "< 100 ms", "< 1 s", "< 10 s", "< 1 min", "longer", "still alive")
SIZE_BINS = (64, 256, 1 << 10, 8 << 10, 256 << 10)
SIZE_NAMES = ("≤ 64 B", "≤ 256 B", "≤ 1 KiB", "≤ 8 KiB", "≤ 256 KiB", "larger")
QUANTILES = (0.0, 0.5, 0.75, 0.9, 0.95, 1.0)
COLUMNS = (
    "lifetime_min",
    "lifetime_p50",
    "lifetime_p75",
    "lifetime_p90",
    "lifetime_p95",
    "lifetime_max",
)
# How many died in each class of strata.learn.classes but the last: what older profiles lack.
DIED = ("died_10ms", "died_100ms", "died_1s", "died_10s", "died_100s", "died_1000s")


def below(edge: float, points: Sequence[float]) -> float:
    """The share of a row's objects that lived shorter than `edge`; `points` belong to QUANTILES."""
    total = 0.0
    for at in range(len(points) - 1):
        low, high = max(points[at], 1.0), max(points[at + 1], points[at], 1.0)
        mass = QUANTILES[at + 1] - QUANTILES[at]
        if high < edge:
            total += mass
        elif low < edge:
            total += mass * (math.log(edge) - math.log(low)) / (math.log(high) - math.log(low))
    return total


def counts_between(died: float, points: Sequence[float], edges: Sequence[float]) -> list[float]:
    """How many of the objects that died lie below the first edge, between two, above the last."""
    shares = [below(edge, points) for edge in edges] if died else [0.0] * len(edges)
    steps = zip([0.0, *shares], [*shares, 1.0], strict=True)
    return [died * (high - low) for low, high in steps]


def died_by_class(row: Mapping[str, int]) -> list[float]:
    """How many of a row's objects died in each class of strata.learn.classes."""
    died = float(max(0, row["objects"]))
    if any(name not in row for name in DIED):
        return counts_between(died, [float(row[column]) for column in COLUMNS], EDGES_NS)
    counts = [float(max(0, row[name])) for name in DIED]
    return [*counts, max(0.0, died - sum(counts))]


def spread(row: Mapping[str, int]) -> list[float]:
    """How many of a row's objects fall into each of NAMES."""
    points = [float(row[column]) for column in COLUMNS]
    live = float(row["still_live"])
    died = max(0.0, float(row["objects"]))
    return [*counts_between(died, points, EDGES), max(0.0, live)]


def size_bin(size: int) -> int:
    return next((at for at, edge in enumerate(SIZE_BINS) if size <= edge), len(SIZE_BINS))


def by_size(rows: pl.DataFrame) -> list[list[float]]:
    """Objects for each range of sizes (SIZE_NAMES) and of lifetimes (NAMES)."""
    table = [[0.0] * len(NAMES) for _ in SIZE_NAMES]
    for row in rows.iter_rows(named=True):
        line = table[size_bin(int(row["bytes"]))]
        for at, count in enumerate(spread(row)):
            line[at] += count
    return table
