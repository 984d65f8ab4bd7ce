"""How well a model does on a data set it was not made from: predicts each context as the run time
does, and weighs what is right by bytes and by allocations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from strata.learn import forecast, model_file
from strata.learn.forecast import Forecast
from strata.learn.model_file import HIDDEN, MOST_FRAMES, Array, Model

if TYPE_CHECKING:
    import polars as pl

Classes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Accuracy:
    """Shares from 0 to 1 of what a data set holds."""

    exact: float
    near: float  # within one class


@dataclass(frozen=True)
class Judged:
    contexts: int
    by_bytes: Accuracy
    by_allocations: Accuracy
    known: float  # share of the frames of which the model knows a token
    alone: Accuracy  # by bytes, of the network without the stacks that the model knows


class Predictor:
    """A model's predictions; frames and the outer parts of stacks are computed once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._rows: dict[str, Array] = {}
        self._states: dict[tuple[str, ...], Array] = {(): np.zeros(HIDDEN, np.float32)}

    def _state(self, outer: tuple[str, ...]) -> Array:
        """The GRU's state after frames, main first."""
        done = len(outer)
        while outer[:done] not in self._states:
            done -= 1
        state = self._states[outer[:done]]
        for at in range(done, len(outer)):
            name = outer[at]
            if name not in self._rows:
                self._rows[name] = forecast.frame_row(self._model, name)
            state = forecast.step(self._model.weights, state, self._rows[name])
            self._states[outer[: at + 1]] = state
        return state

    def class_of(self, symbols: Sequence[str], size: int) -> int:
        """From 1; `symbols` are the stack's, innermost first."""
        known = model_file.known_of(self._model, symbols, size)
        return known.label if known else self.by_network(symbols, size).label

    def by_network(self, symbols: Sequence[str], size: int) -> Forecast:
        """What is said of a stack that the model does not know."""
        state = self._state(tuple(reversed(symbols[:MOST_FRAMES])))
        return forecast.forecast_after(self._model, state, size)


def rows_of(table: pl.DataFrame) -> Iterator[tuple[list[str], int]]:
    return zip(table["symbols"].to_list(), table["bytes"].to_list(), strict=True)


def predictions(model: Model, table: pl.DataFrame) -> Classes:
    predictor = Predictor(model)
    return np.array([predictor.class_of(*row) for row in rows_of(table)], np.int64)


def known_share(model: Model, table: pl.DataFrame) -> float:
    known: dict[str, bool] = {}
    seen = total = 0
    for symbols in table["symbols"].to_list():
        for name in symbols:
            if name not in known:
                known[name] = forecast.knows(model, name)
            seen += known[name]
            total += 1
    return seen / max(total, 1)


def accuracy(guesses: Classes, labels: Classes, weights: npt.NDArray[np.float64]) -> Accuracy:
    off = np.abs(guesses - labels)
    total = max(float(weights.sum()), 1e-9)
    return Accuracy(float(weights[off == 0].sum()) / total, float(weights[off <= 1].sum()) / total)


def test(model: Model, table: pl.DataFrame) -> Judged:
    """All contexts of the table, whatever split they are in."""
    predictor = Predictor(model)
    alone = np.array([predictor.by_network(*row).label for row in rows_of(table)], np.int64)
    guesses = np.array([predictor.class_of(*row) for row in rows_of(table)], np.int64)
    weights = table["weight"].to_numpy().astype(np.float64)
    labels = table["label"].to_numpy().astype(np.int64)
    return Judged(
        len(table),
        accuracy(guesses, labels, weights),
        accuracy(guesses, labels, table["objects"].to_numpy().astype(np.float64)),
        known_share(model, table),
        accuracy(alone, labels, weights),
    )
