"""The library's own figures: reads the JSON it writes and shows them to a person."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from strata.errors import StrataError

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Stats:
    """The part of the library's JSON that the tools use."""

    version: str
    pid: int
    cache_mode: str
    bytes: dict[str, int]
    coverage: float | None
    cache_misses: int
    occupancy: list[tuple[int, int]]  # (used, resident) 8 KiB pages of each hugepage


BYTES = (
    "live",
    "internal_slack",
    "caches",
    "free_resident",
    "metadata",
    "untouched",
    "resident",
    "released",
    "mapped",
    "hugepage_backed",
)
SEEN = ("untouched", "hugepage_backed")  # not there if the library can't know what is resident


def parse(document: dict[str, Any]) -> Stats:
    """Stats from the library's JSON; a missing key is an error, never a zero."""
    try:
        cache = document["cache"]
        known = document.get("resident_known") is not False
        names = BYTES if known else [name for name in BYTES if name not in SEEN]
        return Stats(
            version=str(document["strata"]),
            pid=int(document["pid"]),
            cache_mode=str(document["cache_mode"]),
            bytes={name: int(document["bytes"][name]) for name in names},
            coverage=float(document["coverage"]) if known else None,
            cache_misses=int(cache["misses_alloc"]) + int(cache["misses_free"]),
            occupancy=[(int(row[0]), int(row[1])) for row in document["hugepage_occupancy"]],
        )
    except KeyError as error:
        raise StrataError(f"the library's stats lack {error}") from error
    except (TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        raise StrataError(f"the library's stats are malformed: {error}") from error


def loads(data: bytes) -> Stats:
    """Stats from the bytes that the library wrote."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StrataError(f"the library's stats are not JSON: {error}") from error
    if not isinstance(document, dict):
        raise StrataError("the library's stats are not a JSON object")
    return parse(document)


def human(count: float) -> str:
    """A byte count with three digits that matter: 512 B, 1.50 KiB, 23.4 MiB."""
    value = float(count)
    unit = 0
    while abs(value) >= 1023.5 and unit < len(UNITS) - 1:
        value /= 1024
        unit += 1
    if unit == 0:
        return f"{value:.0f} {UNITS[unit]}"
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {UNITS[unit]}"


def duration(nanoseconds: float) -> str:
    """In the unit that fits: 3.20 µs, 41.5 ms, 7.031 s, 311 s."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= unit:
            number = nanoseconds / unit
            digits = 0 if number >= 100 else 1 if number >= 10 else 2
            return f"{number:.{digits + (unit == 1e9 and number < 100)}f} {name}"
    return f"{nanoseconds:.0f} ns"


def percent(ratio: float | None) -> str:
    return "n/a" if ratio is None else f"{100 * ratio:.1f} %"


class Watch:
    """The figures of a process as they go on, one line a look."""

    COLUMNS = (
        *("time", "resident", "live", "caches", "free", "released"),
        *("coverage", "misses/s"),
    )
    REPEAT = 20  # lines, after which the header comes again
    WIDTH = 9

    def __init__(self) -> None:
        self._lines = 0
        self._before: tuple[float, int] | None = None

    def tick(self, body: bytes, now: time.struct_time, seconds: float) -> list[str]:
        """The line for the library's JSON, under a header where one is due."""
        stats = loads(body)
        held = stats.bytes
        names = ("resident", "live", "caches", "free_resident", "released")
        cells = [time.strftime("%H:%M:%S", now), *(human(held[name]) for name in names)]
        cells += [percent(stats.coverage), self._rate(seconds, stats.cache_misses)]
        rows = [self.COLUMNS] if self._lines % self.REPEAT == 0 else []
        self._lines += 1
        return ["  ".join(cell.rjust(self.WIDTH) for cell in row) for row in (*rows, cells)]

    def _rate(self, seconds: float, misses: int) -> str:
        """Cache misses a second since the look before."""
        before, self._before = self._before, (seconds, misses)
        if before is None or seconds <= before[0]:
            return "-"
        return f"{max(0, misses - before[1]) / (seconds - before[0]):,.0f}"
