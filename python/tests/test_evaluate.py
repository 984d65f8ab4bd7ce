"""`strata model test`: a model on data it was not made from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from strata.learn import evaluate, forecast, known, model_file
from strata.learn.model_file import CLASSES, EMBEDDING, GATES, HEAD, HIDDEN, SIZES, Model, Weights
from strata.learn.rows import COUNTS

STACKS = (
    ["grow_buffer", "cache_add", "main"],
    ["grow_buffer", "request_add", "serve", "main"],
    ["_ZN6server5parseEv", "serve", "main"],
    ["unheard_of", "main"],
)
TOKENS = [b"grow", b"cache", b"main", b"serve", b"server", b"parse"]


def model() -> Model:
    """Weights by chance: what it predicts is as good as any for telling two ways apart."""
    random = np.random.default_rng(3)

    def matrix(*shape: int) -> model_file.Array:
        return random.standard_normal(shape).astype(np.float32)

    weights = Weights(
        matrix(1 + len(TOKENS) + SIZES, EMBEDDING),
        matrix(EMBEDDING, GATES),
        matrix(HIDDEN, GATES),
        matrix(GATES),
        matrix(GATES),
        matrix(HIDDEN, HEAD),
        matrix(HEAD),
    )
    return Model(TOKENS, weights)


def table(labels: list[int], objects: list[float]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "symbols": list(STACKS),
            "bytes": [64, 64, 256, 1024],
            "label": labels,
            "split": ["train", "test", "neither", "train"],
            "objects": objects,
            "weight": [n * size for n, size in zip(objects, (64, 64, 256, 1024), strict=True)],
            "program": ["server"] * 4,
            "build_id": ["ab" * 20] * 4,
            **{
                name: [n * (at == label) for n, label in zip(objects, labels, strict=True)]
                for at, name in enumerate(COUNTS, 1)
            },
            "samples": [10.0] * 4,
        }
    )


def right(of: Model) -> list[int]:
    rows = zip(STACKS, (64, 64, 256, 1024), strict=True)
    return [forecast.predict(of, stack, size).label for stack, size in rows]


def test_a_cached_prediction_is_the_plain_one() -> None:
    one = model()
    assert len(set(right(one))) > 1
    guesses = evaluate.predictions(one, table([1] * 4, [1.0] * 4))
    assert guesses.tolist() == right(one)
    assert evaluate.predictions(one, table([1] * 4, [1.0] * 4)[::-1]).tolist() == right(one)[::-1]


def test_what_is_wrong_counts_by_its_bytes_and_its_objects() -> None:
    one = model()
    labels = right(one)
    found = evaluate.test(one, table(labels, [1.0] * 4))
    assert found.by_bytes == evaluate.Accuracy(1.0, 1.0)
    assert found.contexts == 4
    assert found.known == pytest.approx(10 / 12)
    labels[3] += 1 if labels[3] < CLASSES else -1
    labels[0] += 3 if labels[0] <= CLASSES - 3 else -3
    found = evaluate.test(one, table(labels, [8.0, 1.0, 1.0, 2.0]))
    assert found.by_allocations.exact == pytest.approx(2 / 12)
    assert found.by_allocations.near == pytest.approx(4 / 12)
    total = 8 * 64 + 64 + 256 + 2 * 1024
    assert found.by_bytes.exact == pytest.approx(320 / total)
    assert found.by_bytes.near == pytest.approx((320 + 2048) / total)


def test_what_is_known_of_a_stack_counts_before_the_network() -> None:
    one = model()
    others = [label % CLASSES + 1 for label in right(one)]
    one.known = known.stacks(table(others, [1.0] * 4)[:2], lambda *_: np.zeros(CLASSES, np.float32))
    assert evaluate.predictions(one, table(others, [1.0] * 4)).tolist() == [
        *others[:2],
        *right(one)[2:],
    ]
    found = evaluate.test(one, table(others, [1.0] * 4))
    assert found.alone.exact == 0
    assert found.by_allocations.exact == 0.5


def strata(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strata", "model", "test", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command(tmp_path: Path) -> None:
    one = model()
    file, data = tmp_path / "a.model", tmp_path / "data.parquet"
    model_file.write(one, file)
    table(right(one), [1.0] * 4).write_parquet(data)
    done = strata(file, data)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].split() == ["bytes", "100.0", "%", "100.0", "%"]
    assert "4 contexts; the model knows something of 83 % of their frames" in done.stdout


def test_what_it_refuses(tmp_path: Path) -> None:
    file, data = tmp_path / "a.model", tmp_path / "data.parquet"
    table([1] * 4, [1.0] * 4).clear().write_parquet(data)
    done = strata(file, data)
    assert done.returncode != 0
    assert done.stderr.splitlines() == [f"strata: {file}: no such file or directory"]
    model_file.write(model(), file)
    done = strata(file, data)
    assert done.stderr.splitlines() == [
        "strata: the data set is empty: there is nothing to test with"
    ]
    assert strata(file, tmp_path / "none").stderr.count("\n") == 1
