"""What a model has to beat: the commonest class, a table of whole stacks, and LightGBM on which
tokens a stack has and how deep."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from strata.learn.model_file import CLASSES
from strata.learn.training import Contexts, Ints

FEATURES = 512  # tokens that LightGBM sees
TREES = 60


def majority(data: Contexts) -> Ints:
    counts = np.bincount(data.labels[data.is_train], minlength=CLASSES)
    return np.full(len(data.labels), counts.argmax(), np.int32)


def stack_table(data: Contexts) -> Ints:
    """The same stack and size again; the commonest class for what was not seen."""
    keys = [
        (row.tobytes(), int(size)) for row, size in zip(data.frames, data.sizes[:, 1], strict=True)
    ]
    seen: defaultdict[tuple[bytes, int], Counter[int]] = defaultdict(Counter)
    for at in np.flatnonzero(data.is_train).tolist():
        seen[keys[at]][int(data.labels[at])] += 1
    out = majority(data)
    for at, key in enumerate(keys):
        if key in seen:
            counts = seen[key]
            out[at] = max(sorted(counts), key=counts.__getitem__)
    return out


def trees(data: Contexts, seed: int) -> Ints:
    import lightgbm

    features = np.full((len(data.labels), FEATURES + 2), -1, np.float32)
    for at, frames in enumerate(data.frames):
        inward = frames[frames > 0][::-1]
        for depth in range(len(inward) - 1, -1, -1):
            rows = data.frame_tokens[inward[depth]]
            features[at, rows[(rows > 0) & (rows < FEATURES)]] = depth
        features[at, FEATURES] = len(inward)
    features[:, FEATURES + 1] = data.sizes[:, 1]
    present, labels = np.unique(data.labels[data.is_train], return_inverse=True)
    settings = {
        "objective": "multiclass",
        "num_class": len(present),
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
        "min_data_in_leaf": 5,
    }
    rows = lightgbm.Dataset(
        features[data.is_train], labels, weight=data.loss_weights[data.is_train]
    )
    odds = np.asarray(lightgbm.train(settings, rows, TREES).predict(features))
    return np.asarray(present[odds.argmax(axis=1)], np.int32)
