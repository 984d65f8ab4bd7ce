"""The rows of the data set: a profile of lifetimes as contexts, with how many of their objects died
in each class."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from strata.errors import StrataError
from strata.files import UnreadableError, open_file
from strata.learn.classes import NAMES
from strata.learn.tokens import at_site
from strata.pprof import Location, Profile, load, process_of
from strata.report.lifetimes import COLUMNS, DIED, died_by_class
from strata.symbolize import symbolize

COUNTS = tuple(f"class_{at}" for at in range(1, len(NAMES) + 1))
SUMS = (*COUNTS, "samples")  # what rows of one context add up
CONTEXT = ("program", "build_id", "frames", "symbols", "bytes")
SCHEMA: dict[str, Any] = {
    "program": pl.String,
    "build_id": pl.String,
    "frames": pl.List(pl.String),
    "symbols": pl.List(pl.String),
    "bytes": pl.Int64,
    **dict.fromkeys(SUMS, pl.Float64),
}
WITHOUT_STACK = "strata_"  # begins the names of what has no stack of its own
TRACE_MAGIC = b"STB1"


Rows = list[dict[str, object]]


class Read(NamedTuple):
    """The rows of a file, or why it has none."""

    rows: Rows
    complaint: str = ""
    by_class: bool | None = None  # whether a profile counts by class; None: exact, a recording
    nameless: bool = False


class NotLifetimesError(StrataError):
    """A profile of another kind."""


def names_of(place: Location) -> Iterator[str]:
    """What a frame is called in every build that has it; without a symbol, by the build and the
    place in it."""
    if place.lines or place.mapping is None or not place.mapping.build_id:
        yield from place.names()
    else:
        yield f"{place.mapping.build_id[:16]}+{place.file_address:#x}"


def symbol_of(place: Location) -> str:
    """What the running program can find out for itself of a frame: the symbol in its file's tables,
    with no inlined functions, and the place in the file."""
    name = next(names_of(place))
    if place.lines:
        name = place.lines[-1].system_name or place.lines[-1].function
    return at_site(name, place.mapping.build_id, place.file_address) if place.mapping else name


def rows_of(profile: Profile) -> Iterator[dict[str, object]]:
    names = [value.type for value in profile.types]
    if any(column not in names for column in (*COLUMNS, "objects", "still_live")):
        raise NotLifetimesError("no lifetime profile")
    used = (*COLUMNS, *DIED, "objects", "still_live")
    at = [(name, names.index(name)) for name in used if name in names]
    program = process_of(profile)
    build = profile.mappings[0].build_id if profile.mappings else ""
    called: dict[int, tuple[list[str], str]] = {}  # by the place's id: stacks have most in common
    for sample in profile.samples:
        for place in sample.stack:
            if id(place) not in called:
                called[id(place)] = (list(names_of(place)), symbol_of(place))
        frames = [name for place in sample.stack for name in called[id(place)][0]]
        size = sample.label("bytes")
        if not frames or frames[-1].startswith(WITHOUT_STACK) or not isinstance(size, int):
            continue
        row = {name: sample.values[index] for name, index in at}
        counts = [*died_by_class(row), float(max(0, row["still_live"]))]
        yield {
            "program": program,
            "build_id": build,
            "frames": frames,
            "symbols": [called[id(place)][1] for place in sample.stack],
            "bytes": size,
            **dict(zip(COUNTS, counts, strict=True)),
            "samples": samples_in(profile, sum(counts), size),
        }


def samples_in(profile: Profile, objects: float, size: int) -> float:
    """How many objects of the size were looked at, where each had the same chance; all of them, if
    the profile has no rate."""
    return -objects * math.expm1(-size / profile.period) if profile.period > 0 else objects


def is_trace(path: Path) -> bool:
    try:
        with open_file(path) as file:
            return file.read(len(TRACE_MAGIC)) == TRACE_MAGIC
    except (OSError, UnreadableError):
        return False


def is_nameless(profile: Profile) -> bool:
    """Whether nobody has named the functions, as while a command with --learn runs."""
    places = (place for sample in profile.samples for place in sample.stack)
    return {bool(place.lines) for place in places if place.mapping is not None} == {False}


def rows_of_file(path: Path) -> Read:
    """Of a profile, named here if it is nameless, or of a recording of all calls."""
    if is_trace(path):
        from strata.learn.from_trace import rows_of_trace

        return Read(list(rows_of_trace(path)))
    profile = load(path)
    if is_nameless(profile):
        profile = symbolize(profile)
    by_class = all(each in (value.type for value in profile.types) for each in DIED)
    return Read(list(rows_of(profile)), by_class=by_class, nameless=is_nameless(profile))
