"""What a model says of a stack and a size: predicts as the run time does (src/lifetime/model.cpp),
and is what that is held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from strata.learn.model_file import (
    CLASSES,
    HIDDEN,
    MOST_FRAMES,
    OF,
    SIZES,
    Array,
    Model,
    Weights,
    known_of,
    size_rows,
)
from strata.learn.tokens import hash_of, site_of, tokens_of


class Forecast(NamedTuple):
    """What is said of a stack and a size; both of CLASSES numbers."""

    odds: Array  # that it is the class within which 95 % of the objects die
    shares: Array  # of the objects that die in each

    @property
    def label(self) -> int:
        return int(self.odds.argmax()) + 1


def size_embedding(weights: Weights, size: int) -> Array:
    first = len(weights.embedding) - SIZES
    coarse, fine = size_rows(size)
    return np.asarray(weights.embedding[first + coarse] + weights.embedding[first + fine])


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def knows(model: Model, frame: str) -> bool:
    """Whether a token of the frame's function is one of the model's."""
    return any(hash_of(token) in model.hashes for token in tokens_of(frame))


def frame_row(model: Model, frame: str) -> Array:
    """What the GRU takes of a frame. A place that is not known adds nothing."""
    rows = [model.hashes.get(hash_of(token), 0) for token in tokens_of(frame)] or [0]
    if site := model.hashes.get(hash_of(site_of(frame)), 0):
        rows.append(site)
    total = model.weights.embedding[rows].sum(axis=0)
    return np.asarray(total @ model.weights.input + model.weights.input_bias, np.float32)


def step(weights: Weights, state: Array, row: Array) -> Array:
    recurrent = state @ weights.hidden + weights.hidden_bias
    reset = sigmoid(row[:HIDDEN] + recurrent[:HIDDEN])
    update = sigmoid(row[HIDDEN : 2 * HIDDEN] + recurrent[HIDDEN : 2 * HIDDEN])
    new = np.tanh(row[2 * HIDDEN :] + reset * recurrent[2 * HIDDEN :])
    return np.asarray((1 - update) * new + update * state, np.float32)


def predict(model: Model, symbols: Sequence[str], size: int) -> Forecast:
    """`symbols` are the stack's, innermost first."""
    if known := known_of(model, symbols, size):
        odds = np.zeros(CLASSES, np.float32)
        odds[known.label - 1] = 1
        shares = np.frombuffer(known.shares, np.uint8).astype(np.float32)
        return Forecast(odds, shares / np.float32(OF))
    weights = model.weights
    state = np.zeros(HIDDEN, np.float32)
    for name in reversed(symbols[:MOST_FRAMES]):
        state = step(weights, state, frame_row(model, name))
    return forecast_after(model, state, size)


def softmax(logits: Array) -> Array:
    odds = np.exp(logits - logits.max())
    return np.asarray(odds / odds.sum(), np.float32)


def forecast_after(model: Model, state: Array, size: int) -> Forecast:
    """By the network, from the state after all frames."""
    weights = model.weights
    row = size_embedding(weights, size) @ weights.input + weights.input_bias
    state = step(weights, state, np.asarray(row, np.float32))
    logits = state @ weights.head + weights.head_bias
    return Forecast(softmax(logits[:CLASSES]), softmax(logits[CLASSES:]))
