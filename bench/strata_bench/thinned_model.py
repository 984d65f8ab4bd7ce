"""What a model says that is trained on few of a recording's samples, against one trained on all, as
LLAMA measures its sampling: each allocation asks, of stacks that were not sampled, too.
    python3 -m strata_bench.thinned_model DATA.parquet FOLDER"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from strata.learn import evaluate, model_file
from strata.learn.classes import class_of
from strata.learn.rows import COUNTS

from strata_bench import loads_model

ONE_IN, ALLOCATIONS = 1_000_000, 2.3e9
TRAIN_SECONDS = 900.0
Ints = npt.NDArray[np.int64]


def drawn(table: pl.DataFrame, one_in: int, seed: int, allocations: float | None = None) -> Ints:
    """Takes one object in so many, by chance, of this run or of as many like it as make so many
    allocations: how many of each context and class there are."""
    random = np.random.default_rng((seed, one_in))
    numbers = table.select(COUNTS).to_numpy()
    runs = 1.0 if allocations is None else max(1.0, allocations / max(numbers.sum(), 1.0))
    return random.binomial(np.rint(numbers * runs).astype(np.int64), 1 / one_in)


def thinned(table: pl.DataFrame, left: Ints, one_in: int) -> pl.DataFrame:
    """The data set of what is left: contexts that were not drawn are none of it."""
    counts = [pl.Series(name, left[:, at] * float(one_in)) for at, name in enumerate(COUNTS)]
    labels = [class_of(row) for row in left.tolist()]
    return (
        table.with_columns(
            *counts,
            samples=pl.Series(left.sum(axis=1).astype(float)),
            label=pl.Series(labels, dtype=table.schema["label"]),
        )
        .with_columns(objects=pl.sum_horizontal(COUNTS))
        .with_columns(weight=pl.col("objects") * pl.col("bytes"))
        .filter(pl.col("label") > 0)
    )


def says(data: pl.DataFrame, of: pl.DataFrame, path: Path) -> Ints:
    """The classes that a model trained on the data gives to the others."""
    data.write_parquet(path)
    model = path.with_suffix(".model")
    words = loads_model.strata("train", str(path), "-o", str(model))
    if why := loads_model.call(words, TRAIN_SECONDS):
        raise SystemExit(why)
    return evaluate.predictions(model_file.load(model), of)


def compare(source: Path, folder: Path, one_in: int, allocations: float, seed: int) -> None:
    table = pl.read_parquet(source)
    folder.mkdir(parents=True, exist_ok=True)
    left = drawn(table, one_in, seed, allocations)
    whole = says(table, table, folder / "whole.parquet")
    few = says(thinned(table, left, one_in), table, folder / "few.parquet")
    weighed = {"allocations": table["objects"].to_numpy(), "bytes": table["weight"].to_numpy()}
    was_seen = left.sum(axis=1) > 0
    for name, counts in (("all", np.ones(len(left))), ("of the contexts seen", was_seen)):
        for unit, weights in weighed.items():
            found = evaluate.accuracy(few, whole, weights * counts)
            print(f"{name}: the same class {found.exact:.1%} of {unit}, near {found.near:.1%}")


def positive(text: str) -> float:
    value = float(text)
    if not value >= 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python3 -m strata_bench.thinned_model",
        description="Train one model on few samples and one on all, and compare what they say.",
    )
    parser.add_argument("source", type=Path, metavar="DATA.parquet")
    parser.add_argument("folder", type=Path, help="for both models")
    parser.add_argument("--one-in", type=positive, default=ONE_IN, metavar="N")
    parser.add_argument("--allocations", type=positive, default=ALLOCATIONS, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    if not given.source.is_file():
        parser.error(f"{given.source} is no file")
    compare(given.source, given.folder, int(given.one_in), given.allocations, given.seed)


if __name__ == "__main__":
    main()
