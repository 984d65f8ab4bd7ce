"""How often spans go back to the page heap (Z. Zhou et al., ASPLOS 2024, Fig. 13 and 16),
from the counters of the central free lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strata.report.document import PAGE, Document, as_number
from strata.report.model import OCCUPANCY_LISTS, frame
from strata.report.predictions import NATIVE_PAGE, pages_kept

FEW = slice(0, 2)  # up to 3 live objects
MANY = slice(4, OCCUPANCY_LISTS)  # 16 and more
MIN_CAPACITY = 32  # objects a span must hold to be in Fig. 13: others can only ever have few
MIN_TAKEN = 5  # spans a class must have taken before its rate is drawn
MIN_FEW = 20  # spans seen with few objects before their rate says anything
MIN_CLASSES = 4  # classes before a correlation is said


@dataclass(frozen=True)
class Returns:
    """Of one size class: spans seen with so many live objects, emptiest first, and of those the
    ones given back, since the process started."""

    seen: list[int]
    returned: list[int]

    def rate(self, where: slice) -> float:
        seen = sum(self.seen[where])
        return sum(self.returned[where]) / seen if seen else 0.0


def _counts(row: dict[str, Any], name: str) -> list[int] | None:
    """Eight counters. The lists run the other way: the library's list 0 holds the fullest spans."""
    values = row.get(name)
    if not isinstance(values, list) or len(values) != OCCUPANCY_LISTS:
        return None
    return [max(0, int(as_number(value) or 0)) for value in reversed(values)]


def by_live(stats: Document) -> list[Returns] | None:
    """The classes whose spans can hold many objects; None if the library does not count this."""
    counted = False
    found = []
    for row in stats.rows("classes"):
        if not isinstance(row, dict):
            continue
        seen, returned = _counts(row, "observed"), _counts(row, "returned")
        if seen is None or returned is None:
            continue
        counted = True
        if (as_number(row.get("objects")) or 0) >= MIN_CAPACITY and any(seen):
            found.append(Returns(seen, [min(a, b) for a, b in zip(returned, seen, strict=True)]))
    return found if counted else None


def rates_by_live(classes: Sequence[Returns]) -> list[float | None]:
    """The return rate of each range of live objects, each class weighted by all its spans: one that
    comes free often must not count most where it happens to have most spans."""
    rates: list[float | None] = []
    for at in range(OCCUPANCY_LISTS):
        there = [(sum(c.seen), c.returned[at] / c.seen[at]) for c in classes if c.seen[at]]
        whole = sum(weight for weight, _ in there)
        rates.append(sum(weight * rate for weight, rate in there) / whole if whole else None)
    return rates


def few_and_many(classes: Sequence[Returns]) -> tuple[float, float] | None:
    """The rates of spans with few and with many live objects, compared within each class and then
    averaged (by Mantel and Haenszel's weights); None if no class had both, or hardly any was seen
    with few."""
    whole = few = many = 0.0
    if sum(sum(one.seen[FEW]) for one in classes) < MIN_FEW:
        return None
    for one in classes:
        a, b = sum(one.seen[FEW]), sum(one.seen[MANY])
        if a and b:
            weight = a * b / (a + b)
            whole += weight
            few += weight * one.rate(FEW)
            many += weight * one.rate(MANY)
    return (few / whole, many / whole) if whole else None


def capacity_rates(stats: Document) -> list[tuple[int, int, float, int]] | None:
    """(size, objects a span holds, return rate, spans taken) of each class; None if not counted."""
    table = frame(stats, "classes", "size", "objects", "spans_taken", "spans_returned")
    if table.is_empty():
        return None
    return [
        (size, objects, min(1.0, returned / taken), taken)
        for size, objects, taken, returned in table.sort("size").iter_rows()
        if taken >= MIN_TAKEN and objects > 0
    ]


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values sharing their mean."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for at in order[first : last + 1]:
            ranks[at] = (first + last) / 2 + 1
        first = last + 1
    return ranks


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The rank correlation; None if there are too few pairs or one side never varies."""
    if len(pairs) < MIN_CLASSES:
        return None
    xs, ys = _ranks([pair[0] for pair in pairs]), _ranks([pair[1] for pair in pairs])
    mean = (len(pairs) + 1) / 2
    across = sum((x - mean) * (y - mean) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - mean) ** 2 for x in xs) * sum((y - mean) ** 2 for y in ys)
    return across / spread**0.5 if spread else None


def stuck_class(stats: Document) -> tuple[int, int, int] | None:
    """The class with the most free memory inside its spans: (size, spans, about how many bytes).
    What of it went back is counted for all classes together: where that is much, none is named."""
    rows = free_by_class(stats)
    whole = sum(free for _, _, free in rows)
    resident = stats.whole("bytes", "central_free")
    if not whole or (resident is not None and resident < 0.8 * whole):
        return None
    size, spans, free = max(rows, key=lambda row: row[2])
    return size, spans, free if resident is None else min(free, free * resident // whole)


def free_by_class(stats: Document) -> list[tuple[int, int, int]]:
    """(size, spans, bytes free in them, with memory or without) of each class."""
    table = frame(stats, "classes", "size", "spans", "pages", "central")
    return [
        (size, spans, min(size * central, spans * pages * PAGE))
        for size, spans, pages, central in table.iter_rows()
    ]


def bytes_taken(stats: Document) -> int:
    """Of all objects that their spans have given out, to the program and to caches."""
    table = frame(stats, "classes", "size", "spans", "pages", "central")
    return sum(
        max(0, spans * pages * PAGE - size * central)
        for size, spans, pages, central in table.iter_rows()
    )


def whole_by_chance(stats: Document) -> int | None:
    """Bytes of the pages in spans that no object lies on and that have not gone back yet, if any
    of the objects could be those that live; None if the library does not say what went back. Where
    most has, it was looked for, and what is left does not lie as chance would have it."""
    released = stats.whole("page_heap", "filler", "in_use_released_bytes")
    if released is None:
        return None
    empty = 0.0
    for size, objects, spans, free in frame(
        stats, "classes", "size", "objects", "spans", "central"
    ).iter_rows():
        there = objects * spans
        empty += there * size - NATIVE_PAGE * pages_kept(there, there - free, size)
    return round(empty) - released if 2 * released < empty else 0
