"""The classes of lifetimes of LLAMA (Maas et al., ASPLOS 2020, section 4): below 10 ms, then a
factor of ten a class; the last two are what lives longer, and what was never freed. A context's
class is that within which 95 % of its objects die."""

from __future__ import annotations

from collections.abc import Sequence

MS = 1_000_000  # nanoseconds
EDGES_NS = tuple(10**power * MS for power in range(1, 7))
NAMES = ("10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s", "longer", "never freed")
NEVER = len(NAMES)  # classes are counted from 1
QUANTILE = 0.95


def class_of(counts: Sequence[float]) -> int:
    """The class of a context, from how many of its objects died in each; 0 if it has none."""
    total = sum(counts)
    if total <= 0:
        return 0
    seen = 0.0
    for at, count in enumerate(counts, 1):
        seen += count
        if seen >= QUANTILE * total * (1 - 1e-12):
            return at
    return NEVER
