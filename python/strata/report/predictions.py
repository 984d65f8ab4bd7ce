"""What was predicted of lifetimes, against what was seen, and what the same samples would have held
had nothing been predicted. Only figures; prediction_sections.py shows them.

A prediction is of a context, a stack and a size, and says within which class 95 % of its objects
die (strata.learn.classes).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from strata.learn.classes import EDGES_NS, NAMES, NEVER, QUANTILE, class_of
from strata.pprof.sites import Stack, call_site
from strata.report.document import PAGE, Document, as_number
from strata.report.lifetimes import COLUMNS, died_by_class
from strata.report.profiles import Profile

NATIVE_PAGE = 4096  # what the kernel takes back
OBSERVED = (*NAMES[:-1], "still alive")  # columns of the matrix
SECOND = 1e9


@dataclass(frozen=True)
class Context:
    """A stack and a size of which something is predicted."""

    stack: Stack
    size: int
    predicted: int  # a class, from 1
    died: Sequence[float]  # objects by class, of all but the last
    live: float

    @property
    def objects(self) -> float:
        return sum(self.died) + self.live

    @property
    def bytes(self) -> float:
        return self.objects * self.size


def is_class(value: int) -> bool:
    return 1 <= value <= NEVER


def contexts(profile: Profile | None) -> list[Context]:
    """Those of a lifetime profile of which something is predicted."""
    needed = ("predicted_class", "bytes", "objects", "still_live", *COLUMNS)
    if profile is None or not profile.has(*needed):
        return []
    return [
        Context(
            profile.stacks[row["stack"]],
            int(row["bytes"]),
            int(row["predicted_class"]),
            died_by_class(row),
            float(max(0, row["still_live"])),
        )
        for row in profile.rows.iter_rows(named=True)
        if is_class(int(row["predicted_class"]))
    ]


def live_by_class(profile: Profile) -> dict[int, int]:
    """Live bytes by predicted class, 0 for what nothing is predicted of."""
    sums: dict[int, int] = {}
    if profile.has("predicted_class", "bytes", "still_live"):
        rows = profile.rows.select("predicted_class", "bytes", "still_live")
        for predicted, size, live in rows.iter_rows():
            known = predicted if is_class(predicted) else 0
            sums[known] = sums.get(known, 0) + size * live
    return sums


def matrix(found: Iterable[Context]) -> list[list[float]]:
    """Bytes by predicted class (rows) and by how long their objects lived (OBSERVED)."""
    table = [[0.0] * len(OBSERVED) for _ in NAMES]
    for context in found:
        row = table[context.predicted - 1]
        for at, count in enumerate([*context.died, context.live]):
            row[at] += count * context.size
    return table


# ---- right or wrong


def bound_seconds(predicted: int) -> float | None:
    """Within which time 95 % should have died; None: there is no such time."""
    return EDGES_NS[predicted - 1] / SECOND if predicted <= len(EDGES_NS) else None


def observed(context: Context, age: float | None) -> int | None:
    """The class that was seen, NEVER for too many that are alive; None if it is too early to tell.

    Objects that live may yet die in time. They contradict a prediction if there are more of them
    than the 5 % that may outlive it and those that were allocated so recently, had all been
    allocated evenly over the `age` of the process, in seconds."""
    if context.objects <= 0:
        return None
    alive = context.live / context.objects
    slack = 1 - QUANTILE
    if alive > slack:
        bound = bound_seconds(context.predicted)
        if bound is None or age is None or alive <= slack + bound / max(age, 1e-9):
            return None
        return NEVER
    return class_of([*context.died, 0.0])


@dataclass(frozen=True)
class Wrong:
    """A context whose prediction was not what was seen."""

    context: Context
    seen: int


@dataclass(frozen=True)
class Verdict:
    """All contexts by whether they were predicted right, in bytes."""

    right: float
    near: float  # off by one class
    far: float
    open: float  # too early to tell
    wrong: list[Wrong]  # the most bytes first

    @property
    def judged(self) -> float:
        return self.right + self.near + self.far


def judge(found: Iterable[Context], age: float | None) -> Verdict:
    right = near = far = open_ = 0.0
    wrong = []
    for context in found:
        seen = observed(context, age)
        if seen is None:
            open_ += context.bytes
            continue
        off = abs(seen - context.predicted)
        if off == 0:
            right += context.bytes
            continue
        if off == 1:
            near += context.bytes
        else:
            far += context.bytes
        wrong.append(Wrong(context, seen))
    wrong.sort(key=lambda one: (-one.context.bytes, one.context.stack, one.context.size))
    return Verdict(right, near, far, open_, wrong)


def site_namer(found: Sequence[Context]) -> Callable[[Stack], str]:
    """What to call a stack among others: by its innermost function that most do not pass through,
    as most do through main and a program's wrapper of malloc."""
    seen = Counter(function for one in found for function in set(one.stack))
    common = {function for function, count in seen.items() if 2 * count > len(found)}

    def name(stack: Stack) -> str:
        own = [function for function in stack if function not in common]
        return call_site(own or stack)

    return name


# ---- what wrong guesses keep


@dataclass(frozen=True)
class Kept:
    """Free bytes that do not go back, around objects that outlived what was predicted of them."""

    in_hugepages: float
    in_pages: float


def kept(found: Iterable[Context], fragmentation: Profile | None) -> Kept | None:
    """None if it cannot be known. The profile has only objects older than a second, by the power of
    ten of their age; a prediction is wrong for those that are surely older than it says."""
    needed = ("wasted_space", "level", "age_s", "bytes")
    if fragmentation is None or not fragmentation.has(*needed):
        return None
    predicted = {(one.stack, one.size): one.predicted for one in found}
    sums = {"hugepage": 0.0, "page": 0.0}
    for row in fragmentation.rows.iter_rows(named=True):
        key = (fragmentation.stacks[row["stack"]], int(row["bytes"]))
        bound = bound_seconds(predicted[key]) if key in predicted else None
        if bound is not None and row["age_s"] >= bound and row["level"] in sums:
            sums[row["level"]] += float(row["wasted_space"])
    return Kept(sums["hugepage"], sums["page"])


@dataclass(frozen=True)
class Lasting:
    """The spans that hold what is predicted to last."""

    held: int  # with what was given back inside of them
    live: int


def lasting(stats: Document) -> Lasting | None:
    """None if there are none, or the library does not say."""
    held = live = 0
    for row in stats.rows("classes"):
        if not isinstance(row, dict) or row.get("lasting") is not True:
            continue
        size, pages, spans, objects = (
            int(as_number(row.get(name)) or 0) for name in ("size", "pages", "spans", "live")
        )
        span_bytes = as_number(row.get("span_bytes"))
        held += max(0, spans * pages * PAGE if span_bytes is None else int(span_bytes))
        live += max(0, size * objects)
    return Lasting(held, live) if held else None


# ---- without predictions


def pages_kept(peak: float, live: float, size: int) -> float:
    """Pages of 4 KiB that still have an object, of those that `peak` objects of a size filled, when
    `live` of these are left and could be any. A page that k objects reach into is empty with the
    chance (1 - live / peak)^k. Objects lie end to end, so that some reach into two pages."""
    peak = max(peak, live)
    if peak <= 0 or size <= 0:
        return 0.0
    reaching = (NATIVE_PAGE + size - math.gcd(size, NATIVE_PAGE)) / size
    return peak * size / NATIVE_PAGE * (1 - math.pow(1 - live / peak, reaching))


def objects_by_size(profile: Profile) -> dict[int, float]:
    sums: dict[int, float] = {}
    rows = profile.rows.select("bytes", "inuse_objects")
    for size, objects in rows.iter_rows():
        sums[size] = sums.get(size, 0.0) + float(objects)
    return sums


def live_by_size(heap: Profile, stats: Document) -> dict[int, float]:
    """Live objects: counted, for the size classes; estimated, for blocks larger than these."""
    counted: dict[int, float] = {}
    for row in stats.rows("classes"):
        if not isinstance(row, dict):
            continue
        size, live = as_number(row.get("size")), as_number(row.get("live"))
        if size is not None and live is not None:
            counted[int(size)] = counted.get(int(size), 0.0) + max(0.0, live)
    return objects_by_size(heap) | counted


def held_without(heap: Profile | None, peak: Profile | None, stats: Document) -> float | None:
    """An estimate of what the heap would hold now had nothing been predicted, once what can go back
    has gone back. None if a profile is missing.

    Without predictions an object may lie anywhere among those of its size. So of the pages that a
    size filled at the peak, those stay that have one of the objects that are alive. Caches and the
    allocator's own tables are taken to be what they are."""
    if heap is None or peak is None:
        return None
    if not heap.has("inuse_objects", "bytes") or not peak.has("inuse_objects", "bytes"):
        return None
    most, now = objects_by_size(peak), live_by_size(heap, stats)
    pages = sum(pages_kept(most.get(size, 0.0), live, size) for size, live in now.items())
    rest = sum(stats.number("bytes", name) or 0.0 for name in ("caches", "metadata"))
    return pages * NATIVE_PAGE + rest
