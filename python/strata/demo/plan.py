"""What the demo does to each server, drawn once so that all get the very same requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strata.redis import Pipeline, bulk, delete_pipeline, get_pipeline, set_pipeline

Operation = Literal["SET", "DEL", "GET"]
KEY_BYTES = len(b"key:%07d" % 0)


@dataclass(frozen=True)
class Plan:
    """Sizes and lengths of the load."""

    keys: int
    reads: int
    rounds: int
    idle_seconds: float
    delete_share: float = 0.7
    smallest: int = 64
    largest: int = 4096
    pipeline: int = 32
    connections: int = 2
    zipf_exponent: float = 0.99
    seed: int = 20230604


FULL = Plan(keys=300_000, reads=400_000, rounds=5, idle_seconds=10)
# Long enough for memory to go back: release starts three to four seconds after the last request.
QUICK = Plan(keys=120_000, reads=240_000, rounds=2, idle_seconds=6)


@dataclass(frozen=True)
class Phase:
    """One run of requests: which keys, and for a SET or GET the size of each key's value."""

    name: str
    operation: Operation
    keys: NDArray[np.int64]
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Load:
    """All requests of the demo, and the bytes of keys and values live after each phase."""

    phases: dict[str, Phase]
    live_bytes: dict[str, int]


def draw(plan: Plan) -> Load:
    """Draws the load. Fill: sizes uniform in their logarithm; refill: uniform, so larger."""
    random = np.random.default_rng(plan.seed)
    low, high = np.log(plan.smallest), np.log(plan.largest)
    sizes = np.exp(random.uniform(low, high, plan.keys)).round().astype(np.int64)
    deleted = random.permutation(plan.keys)[: int(plan.keys * plan.delete_share)]
    refill = random.integers(plan.smallest, plan.largest + 1, len(deleted))
    final = sizes.copy()
    final[deleted] = refill
    popularity = np.cumsum(np.arange(1, plan.keys + 1, dtype=float) ** -plan.zipf_exponent)
    ranks = np.searchsorted(popularity, random.uniform(0, popularity[-1], plan.reads))
    read = random.permutation(plan.keys)[np.minimum(ranks, plan.keys - 1)]
    order = random.permutation(deleted)
    survivors = int(sizes.sum() - sizes[deleted].sum())
    phases = (
        Phase("fill", "SET", np.arange(plan.keys), sizes),
        Phase("delete", "DEL", deleted),
        Phase("refill", "SET", order, final[order]),
        Phase("read", "GET", read, final[read]),
    )
    return Load(
        {phase.name: phase for phase in phases},
        {
            "fill": int(sizes.sum()) + plan.keys * KEY_BYTES,
            "delete": survivors + (plan.keys - len(deleted)) * KEY_BYTES,
            "refill": int(final.sum()) + plan.keys * KEY_BYTES,
        },
    )


class Requests:
    """Knows every key and value as the bytes that travel, so that sending one is a copy."""

    def __init__(self, plan: Plan) -> None:
        pool = np.random.default_rng(plan.seed).bytes(2 * plan.largest)
        self._pipeline = plan.pipeline
        self._keys = [bulk(b"key:%07d" % number) for number in range(plan.keys)]
        self._values = [bulk(pool[size % 997 :][:size]) for size in range(plan.largest + 1)]

    def of(self, phase: Phase) -> Iterator[Pipeline]:
        """The phase's pipelines, each built when it is asked for."""
        for start in range(0, len(phase.keys), self._pipeline):
            chunk = slice(start, start + self._pipeline)
            keys = [self._keys[number] for number in phase.keys[chunk].tolist()]
            if phase.operation == "DEL":
                yield delete_pipeline(keys)
                continue
            values = [self._values[size] for size in phase.sizes[chunk].tolist()]
            yield (set_pipeline if phase.operation == "SET" else get_pipeline)(keys, values)
