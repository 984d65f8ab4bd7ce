"""How far two runs of one build agree on what there is to predict, whatever predicts it: the rows
of docs/benchmarks/accuracy.md that say what no model can know."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from strata.learn.classes import NAMES, class_of
from strata.learn.known import KEYS, merged
from strata.learn.rows import COUNTS

MANY = 20
DRAWS = 20
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Border:
    """Between two classes: what was on one side of it in one run and on the other in the other."""

    name: str  # the shorter class's: the lower border, if there are several
    contexts: int
    share: float  # of the second run's bytes
    before: tuple[float, float]  # in either run: the share of its objects that died before it


@dataclass(frozen=True)
class Noise:
    """Shares of the second run's bytes, of contexts that both runs have unless said."""

    program: str
    many: float  # of all: of contexts with MANY samples in the first run
    many_right: float  # of these, by the table
    within: float  # of objects that died within the class of the first run
    halves: tuple[float, float, float]  # two draws from both runs: the mean, the least, the most
    borders: tuple[Border, ...] = ()


def classes(counts: Floats | Ints) -> Ints:
    return np.array([class_of(row) for row in counts.tolist()], np.int64)


def chance(sizes: Floats, interval: int) -> Floats:
    """Of an object to be sampled."""
    return np.asarray(-np.expm1(-sizes / interval), np.float64)


def of(values: Floats, which: npt.NDArray[np.bool_]) -> float:
    total = float(values.sum())
    return float(values[which].sum()) / total if total > 0 else math.nan


def halves(both: pl.DataFrame, interval: int) -> tuple[float, float, float]:
    """Gives each sample of the two runs to one of two others by chance: how far these agree."""
    taken = chance(both["bytes"].to_numpy().astype(np.float64), interval)[:, None]
    second = both.select(f"{name}_right" for name in COUNTS).to_numpy()
    counts = np.rint((both.select(COUNTS).to_numpy() + second) * taken).astype(np.int64)
    weights = both["weight_right"].to_numpy()
    found = []
    for seed in range(DRAWS):
        one = np.random.default_rng(seed).binomial(counts, 0.5)
        first, other = classes(one), classes(counts - one)
        seen = (first > 0) & (other > 0)
        found.append(of(weights[seen], (first == other)[seen]))
    return float(np.mean(found)), min(found), max(found)


def borders(both: pl.DataFrame, all_bytes: float) -> tuple[Border, ...]:
    """Those with the most bytes first."""
    lower = both.select(pl.min_horizontal("label", "label_right")).to_series().to_numpy()
    other = both["label"].to_numpy() != both["label_right"].to_numpy()
    weights = both["weight_right"].to_numpy()
    shares = []
    for suffix in ("", "_right"):
        counts = both.select(f"{name}{suffix}" for name in COUNTS).to_numpy()
        upto = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
        shares.append(upto[np.arange(len(lower)), lower - 1])
    found = []
    for edge in np.unique(lower[other]).tolist():
        here = other & (lower == edge)
        first, second = (float(np.average(each[here], weights=weights[here])) for each in shares)
        share = float(weights[here].sum()) / all_bytes
        found.append(Border(NAMES[edge - 1], int(here.sum()), share, (first, second)))
    return tuple(sorted(found, key=lambda each: -each.share))


def noise(program: str, first: pl.DataFrame, second: pl.DataFrame, interval: int) -> Noise:
    known, tested = merged(first), merged(second)
    both = known.join(tested, on=KEYS, how="inner")
    said, is_class = both["label"].to_numpy(), both["label_right"].to_numpy()
    weights, samples = both["weight_right"].to_numpy(), both["samples"].to_numpy()
    many = samples >= MANY
    counts = both.select(f"{name}_right" for name in COUNTS).to_numpy()
    upto = np.cumsum(counts, axis=1)
    kept = both["bytes"].to_numpy() * upto[np.arange(len(said)), said - 1]
    everything = both["bytes"].to_numpy() * upto[:, -1]
    all_bytes = tested["weight"].to_numpy()
    return Noise(
        program,
        float(weights[many].sum() / all_bytes.sum()),
        of(weights[many], (said == is_class)[many]),
        float(kept.sum() / everything.sum()),
        halves(both, interval),
        borders(both, float(all_bytes.sum())),
    )


def lines(noises: list[Noise]) -> list[str]:
    """The section of the page."""
    header = (
        "program",
        f"contexts with {MANY} samples",
        "right of these",
        "died within",
        "two draws agree",
    )
    about = (
        "\n## What no model can know\n",
        "Of the two recordings of `same build`, by bytes of the second. The first two: what "
        f"had {MANY} samples in the first, and how much of it a table of that one gets right. "
        "`died within`: the objects that died within the class that the table "
        "says, of which a class promises 95 %. `two draws agree`: each sample of both recordings "
        f"is given to one of two halves by chance, {DRAWS} times; of what the halves have in "
        "common, the share with one class in both: mean, least and most.\n",
        f"| {' | '.join(header)} |",
        "|---|" + "---:|" * (len(header) - 1),
    )
    rows = []
    for each in noises:
        mean, least, most = (100 * share for share in each.halves)
        shares = (each.many, each.many_right, each.within)
        cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
        rows.append(f"| {each.program} | {cells} | {mean:.1f} % ({least:.1f} to {most:.1f}) |")
    return [*about, *rows, *border_lines(noises)]


def border_lines(noises: list[Noise]) -> list[str]:
    header = ("program", "border", "contexts", "of the bytes", "died before it", "in the second")
    about = (
        "\nWhere the classes of the two runs differ: the lower border between them, and the share "
        "of the objects that died before it in the first run and in the second, by bytes. 95 % "
        "decide.\n",
        f"| {' | '.join(header)} |",
        "|---|---|" + "---:|" * (len(header) - 2),
    )
    rows = []
    for each in noises:
        for border in each.borders:
            shares = (border.share, *border.before)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            rows.append(f"| {each.program} | {border.name} | {border.contexts:,} | {cells} |")
    return [*about, *rows] if rows else []
