"""The contexts of a recording of every call (`strata trace --stacks`), as rows of the data set:
exact, where a profile estimates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.learn.classes import EDGES_NS
from strata.learn.rows import COUNTS, WITHOUT_STACK, names_of, symbol_of
from strata.objfile import ObjectFile
from strata.pprof import Location, Mapping, Profile, Sample
from strata.symbolize import symbolize
from strata.trace.analyze import objects
from strata.trace.read import Trace, read_trace

LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ \d+ +(/.*)")
LARGEST = 256 << 10  # of a size class
STEPS = 8  # sizes in a doubling


def rows_of_trace(path: Path) -> Iterator[dict[str, object]]:
    trace = read_trace(path)
    if not trace.header.has_stacks:
        raise StrataError(f"{path}: a recording without stacks (strata trace --stacks)")
    program = Path(trace.header.command[0]).name[:15]
    mappings = code_of(trace.mappings)
    named = with_names(trace, mappings)
    build = mappings[0].build_id if mappings else ""
    for stack, size, *counts in counted(trace).iter_rows():
        places = named.get(stack, ())
        frames = [name for place in places for name in names_of(place)]
        if not frames or frames[-1].startswith(WITHOUT_STACK):
            continue
        yield {
            "program": program,
            "build_id": build,
            "frames": frames,
            "symbols": [symbol_of(place) for place in places],
            "bytes": size,
            **dict(zip(COUNTS, map(float, counts), strict=True)),
            "samples": float(sum(counts)),
        }


def code_of(maps: str) -> list[Mapping]:
    """Files whose code was mapped, by the text of /proc/PID/maps, with the build ids they have."""
    found = []
    for line in maps.splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            continue
        path = match[4]
        file = ObjectFile.open(Path(path))
        build = file.build_id if file is not None else ""
        start, limit, offset = (int(match[at], 16) for at in (1, 2, 3))
        found.append(Mapping(start, limit, offset, path, build))
    return found


def with_names(trace: Trace, mappings: list[Mapping]) -> dict[int, tuple[Location, ...]]:
    places: dict[int, Location] = {}
    for address in {frame for stack in trace.stacks.values() for frame in stack}:
        inside = address - 1  # of the call, which the return address may be the end of
        mapping = next((m for m in mappings if m.start <= inside < m.limit), None)
        places[address] = Location(inside, mapping)
    ids = list(trace.stacks)
    samples = [Sample(tuple(places[frame] for frame in trace.stacks[at]), ()) for at in ids]
    named = symbolize(Profile([], samples, mappings))
    return {at: sample.stack for at, sample in zip(ids, named.samples, strict=True)}


def counted(trace: Trace) -> pl.DataFrame:
    """For each stack and size, how many objects died in each class. Sizes are rounded up to an
    eighth of a doubling, about as size classes are; as in profiles, large ones too."""
    size = pl.col("size").clip(1).cast(pl.Int64)
    step = (2 ** ((size - 1).clip(1).log(2).floor() - 3).clip(3)).cast(pl.Int64)
    rounded = (size + step - 1) // step * step
    died = pl.col("lifetime")
    edges = (0, *EDGES_NS)
    within = [
        ((died >= low) & (died < high)).sum()
        for low, high in zip(edges, (*EDGES_NS, 1 << 62), strict=True)
    ]
    columns = [*within, died.is_null().sum()]
    return (
        objects(trace)
        .group_by(stack=pl.col("stack"), bytes=rounded)
        .agg(*(column.alias(name) for name, column in zip(COUNTS, columns, strict=True)))
        .sort("stack", "bytes")
    )
