"""What the pictures and tables are made of: a tree of calls, and figures for each function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from strata.errors import StrataError
from strata.pprof import Profile, ValueType
from strata.pprof.sites import NAMELESS

MAX_FRAMES = 20_000  # of a picture; what is left out is too thin to be seen


def additive(value: ValueType) -> bool:
    """Whether sums over stacks mean something: not so for lifetimes, quantiles and shares."""
    return value.rule == "sum"


def shown_types(profile: Profile) -> list[int]:
    """The values that a flame graph can show, the default one first."""
    found = [index for index, value in enumerate(profile.types) if additive(value)]
    if not found:
        raise StrataError("the profile has no values that add up")
    first = profile.index_of()
    return sorted(found, key=lambda index: (index != first, index))


@dataclass
class Frame:
    name: str
    parent: int
    values: list[int]  # with all that it calls
    children: dict[str, int] = field(default_factory=dict)


class CallTree:
    """All stacks of one or more profiles as a tree; frame 0 is the root. A frame's values are those
    of the first profile, then those of the second, and so on, each for the given types."""

    def __init__(self, profiles: list[Profile], types: list[int]) -> None:
        width = len(types) * len(profiles)
        self.frames = [Frame("all", -1, [0] * width)]
        for number, profile in enumerate(profiles):
            base = number * len(types)
            for sample in profile.samples:
                values = [max(0, sample.values[index]) for index in types]
                at = 0
                self._add(at, base, values)
                for name in sample.names():
                    at = self._child(at, name, width)
                    self._add(at, base, values)

    def _add(self, at: int, base: int, values: list[int]) -> None:
        total = self.frames[at].values
        for index, value in enumerate(values):
            total[base + index] += value

    def _child(self, at: int, name: str, width: int) -> int:
        children = self.frames[at].children
        found = children.get(name)
        if found is None:
            found = children[name] = len(self.frames)
            self.frames.append(Frame(name, at, [0] * width))
        return found

    def biggest(self, limit: int = MAX_FRAMES) -> list[int]:
        """The frames worth drawing, parents before children: those with the largest shares. A
        frame is never larger than its parent, so no frame is taken without its parent."""
        totals = self.frames[0].values
        share = [
            max((v / t for v, t in zip(frame.values, totals, strict=True) if t), default=0.0)
            for frame in self.frames
        ]
        order = sorted(range(len(self.frames)), key=lambda index: (-share[index], index))
        return sorted(order[:limit])


@dataclass
class FunctionRow:
    name: str
    flat: int = 0  # of stacks that end in it
    total: int = 0  # of stacks that it is in
    lines: Counter[str] = field(default_factory=Counter)  # of it by file:line or named caller

    @property
    def title(self) -> str:
        """Its name, and where it asked for most of its own."""
        if not self.lines:
            return self.name
        line = self.lines.most_common(1)[0][0]
        file = f" ({line.rpartition(':')[0]})"  # which Python's functions have in their names
        return f"{self.name.removesuffix(file)} ({line})"


def under(callers: Sequence[str], name: str) -> str:
    """What helps to find a function that has no name: the nearest caller, outermost first, that
    has."""
    if not NAMELESS.search(name):
        return ""
    named = next((caller for caller in reversed(callers) if not NAMELESS.search(caller)), "")
    return f"under {named}" if named else ""


# The functions of a stack, innermost first, that may own what was allocated.
Owners = Callable[[Sequence[str]], Sequence[str]]


def by_function(
    profile: Profile,
    index: int,
    owners: Owners | None = None,
) -> list[FunctionRow]:
    """One row for each function, the largest own value first. `owners` says which functions of a
    stack may own what it has, the likeliest first: the others are left out of it. Without it the
    innermost owns it."""
    rows: dict[str, FunctionRow] = {}
    for sample in profile.samples:
        value = sample.values[index]
        names = sample.names()
        own = (owners(names[::-1]) if owners is not None else ()) or names[::-1]
        for name in set(own):
            rows.setdefault(name, FunctionRow(name)).total += value
        if names:
            row = rows[own[0]]
            row.flat += value
            at = len(names) - 1 - names[::-1].index(row.name)
            line = sample.places()[at] or under(names[:at], row.name)
            if line and value > 0:
                row.lines[line] += value
    return sorted(rows.values(), key=lambda row: (-abs(row.flat), -abs(row.total), row.name))
