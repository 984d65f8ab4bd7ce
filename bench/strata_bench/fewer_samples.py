"""Models from fewer samples: a dense recording is thinned out, and each context gets its class anew
from what is left. After table 2 of LLAMA (Maas et al., CACM 67(4), 2024); a part of accuracy.py's
page."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from strata.learn.classes import class_of

from strata_bench.page_cells import percent, share_table
from strata_bench.thinned_model import drawn

RATES = (100, 1000, 10_000, 100_000, 1_000_000)
DRAWS = 20  # of each rate
MANY_RUNS = 2.3e9  # allocations: the paper's 20 runs
ENOUGH = 30  # contexts seen in all draws: a share of fewer says nothing
STAYS = 0.80
Flags = npt.NDArray[np.bool_]
Rates = dict[str, tuple[int, list["Thinned"]]]  # by program: contexts, and what was found
ABOUT = (
    "\n## Fewer samples\n",
    "One recording of each program with a sample every 1 KiB, thinned out: of the objects "
    "that it stands for, one in so many is kept, by chance. What is left gives the class of "
    "each context anew, once for that run and once for as many like it as make "
    f"{MANY_RUNS / 1e9:.1f} billion allocations, which is what the paper sampled. `same` is "
    "the share of the contexts "
    f"still seen whose class stayed the same, over {DRAWS} draws; the next two columns weigh "
    "them by allocations and by bytes. The verdicts are on the many runs, at the rates at "
    f"which at least {ENOUGH} contexts are seen. One run at 1:1,000,000 is a handful of "
    "samples: the class is then that of one object.\n",
)


@dataclass(frozen=True)
class Thinned:
    """What all draws at a rate found together: the contexts seen, and those of them whose class is
    the same."""

    one_in: int
    share_seen: float
    seen: int
    same: float  # share of those seen; NaN if there are none
    same_bytes: float  # weighed by bytes
    allocations: float = 0.0  # of how many
    same_objects: float = math.nan  # weighed by allocations
    lone: float = math.nan  # share of those seen whose class is that of one object


def draw(
    table: pl.DataFrame, one_in: int, seed: int, allocations: float | None = None
) -> tuple[Flags, Flags, Flags]:
    """Takes one object in so many, by chance: which contexts it sees, of which of them the class is
    the same, and which it sees once. Of this run, or of as many like it as make so many
    allocations."""
    left = drawn(table, one_in, seed, allocations)
    classes = np.array([class_of(row) for row in left.tolist()], np.int64)
    seen = classes > 0
    return seen, seen & (classes == table["label"].to_numpy()), left.sum(axis=1) == 1


def thin(table: pl.DataFrame, one_in: int, allocations: float | None = None) -> Thinned:
    found = [draw(table, one_in, seed, allocations) for seed in range(DRAWS)]
    seen, same, lone = (np.concatenate(flags) for flags in zip(*found, strict=True))
    total = allocations or float(table["objects"].sum())
    if not seen.any():
        return Thinned(one_in, 0.0, 0, math.nan, math.nan, total)

    def share(column: str) -> float:
        weights = np.tile(table[column].to_numpy(), DRAWS)
        return float(weights[same].sum() / weights[seen].sum())

    of_seen = float(same[seen].mean())
    counts = (float(seen.mean()), int(seen.sum()))
    weighed = (share("weight"), total, share("objects"))
    return Thinned(one_in, *counts, of_seen, *weighed, float(lone[seen].mean()))


def thin_all(table: pl.DataFrame) -> list[Thinned]:
    """At all rates: of this run, then of many."""
    return [thin(table, one_in, length) for length in (None, MANY_RUNS) for one_in in RATES]


def lines(rates: Rates) -> list[str]:
    body: list[tuple[str, ...]] = []
    verdicts = []
    for program, (contexts, found) in rates.items():
        for each in found:
            shares = (each.share_seen, each.same, each.same_objects, each.same_bytes)
            cells = [percent(value) for value in shares]
            of = f"{each.allocations / 1e6:,.1f} M"
            body.append((program, of, f"1:{each.one_in:,}", f"{contexts:,}", *cells))
        judged = [e for e in found if e.seen >= ENOUGH and e.allocations >= MANY_RUNS]
        if not judged:
            continue
        low = min(judged, key=lambda each: each.same_objects)
        met = "met" if low.same_objects >= STAYS else "missed"
        verdicts.append(
            f"- {program}: of the rates up to 1:{judged[-1].one_in:,} of many runs"
            f" 1:{low.one_in:,} is the worst; the class stays the same for"
            f" {percent(low.same_objects)} of the allocations (asked for ≥ {STAYS:.0%}: {met})"
            f" and in {percent(low.same)} of the contexts, of which {percent(low.lone)} have one"
            " sample."
        )
    header = ("program", "of", "rate", "contexts", "seen", "same", "by allocations", "by bytes")
    return [*ABOUT, *share_table(header, 3, body), *verdicts]
