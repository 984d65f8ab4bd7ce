"""How far recordings of one build agree, pair by pair, with many threads and with few: a section of
docs/benchmarks/accuracy.md."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from statistics import fmean

import polars as pl

KEYS = ["symbols", "bytes"]


@dataclass(frozen=True)
class Agreement:
    """Shares of bytes."""

    program: str
    options: str
    pairs: tuple[float, ...]  # of each recording, by a table of each other one
    best: float  # the most that could be right
    recordings: int


def by_table(trained: pl.DataFrame, tested: pl.DataFrame) -> float:
    """By what a table of the one recording's stacks and sizes says of the other. Where the same
    stack and size had another class, no model of these runs can know."""
    first = trained.sort("weight", descending=True).unique(KEYS, keep="first", maintain_order=True)
    first = first.select(*KEYS, pl.col("label").alias("said"))
    both = tested.join(first, on=KEYS, how="left")
    right = both.filter(pl.col("said") == pl.col("label"))["weight"].to_numpy().sum()
    return float(right) / max(float(both["weight"].to_numpy().sum()), 1e-9)


def best_of_any(runs: list[pl.DataFrame]) -> float:
    """Of one class for each stack and size, known afterwards: what differs from run to run nobody
    can know by the stack."""
    by_class = pl.concat([run.select(*KEYS, "label", "weight") for run in runs])
    sums = by_class.group_by([*KEYS, "label"]).agg(pl.col("weight").sum())
    right = sums.group_by(KEYS).agg(pl.col("weight").max())["weight"].to_numpy().sum()
    return float(right) / max(float(by_class["weight"].to_numpy().sum()), 1e-9)


def agreement(program: str, options: str, runs: list[pl.DataFrame]) -> Agreement:
    pairs = tuple(by_table(one, other) for one, other in permutations(runs, 2))
    return Agreement(program, options, pairs, best_of_any(runs), len(runs))


def lines(found: list[Agreement]) -> list[str]:
    """The section of the page."""
    if not found:
        return []
    about = (
        "\n## Threads that wait for a processor\n",
        "The same programs as they are, and with few threads: `images` with a worker for each "
        "processor, `words` with a thread for each stage. Of each recording's bytes, the share "
        "that a table of another one gets right, as mean, least and most of all ordered pairs, and "
        "`best of any` over all of them.\n",
        "| program | options | recordings | by table | best of any |",
        "|---|---|---:|---:|---:|",
    )
    rows = []
    for each in found:
        mean, least, most = (100 * one(each.pairs) for one in (fmean, min, max))
        shares = f"{mean:.1f} % ({least:.1f} to {most:.1f}) | {100 * each.best:.1f} %"
        rows.append(f"| {each.program} | {each.options} | {each.recordings} | {shares} |")
    return [*about, *rows]
