"""The rows of `strata simulate`: which policies a domain is replayed through, and with which
predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strata.simulate import ladder as predictions
from strata.simulate.core import Domain
from strata.simulate.items import SECOND, Items
from strata.simulate.ladder import Classes, Ladder

HOUR = 3600
LADDERS = {
    Domain.HEAP: Ladder(SECOND // 100, 10, 8),
    Domain.FLASH: Ladder(10 * SECOND, 4, 5),
    Domain.JOBS: Ladder(HOUR * SECOND, 10, 4),
}


@dataclass(frozen=True)
class Row:
    name: str
    policy: str  # strata-simulate's
    classes: Classes
    ladder: Ladder
    note: str | None = None


def rows(
    domain: Domain,
    items: Items,
    ladder: Ladder,
    noise: Sequence[float],
    seed: int,
    modelled: Classes | None,
) -> Iterator[Row]:
    """`modelled`: what a model says of the items, if there is one."""
    nothing = predictions.nothing(items)
    one = Ladder(ladder.base, ladder.ratio, 1)
    if domain is Domain.FLASH:  # what is written cannot be written again, so no gap is filled
        yield Row("one log", "llama", nothing, one)
    else:
        yield Row("first fit", "first-fit", nothing, one)
        yield Row("Temeraire", "fullest", nothing, one)
    yield Row("LLAMA, oracle", "llama", predictions.oracle(items, ladder), ladder)
    if modelled is not None:
        yield Row("LLAMA, model", "llama", modelled, ladder)
    if items.has_predictions:
        yield Row("LLAMA, as predicted", "llama", predictions.given(items, ladder), ladder)
    if items.has_contexts:
        classes, share = predictions.trained(items, ladder)
        note = f"learned: of {100 * share:.1f} % of the second half the first has seen the context"
        yield Row("LLAMA, learned", "llama", classes, ladder, note)
    for percent in noise:
        classes = predictions.noisy(items, ladder, percent, seed)
        yield Row(f"LLAMA, {percent:g} % noise", "llama", classes, ladder)
    yield Row("LLAMA, no prediction", "llama", nothing, ladder)
