"""Reads a trace file into columns: one row an event, in the order of the calls."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strata.errors import StrataError, why_refused
from strata.files import UnreadableError, open_file
from strata.trace.format import (
    HAS_STACKS,
    MOST_FRAMES,
    MOST_THREAD,
    MOST_TIME,
    VERSION,
    Block,
    Column,
    DamageError,
    Kind,
    Numbers,
    Operation,
    blocks,
    unzigzag,
    varints,
)


@dataclass(frozen=True)
class Header:
    version: int
    pid: int
    parent: int
    start_realtime: int
    start_monotonic: int
    flags: int
    command: tuple[str, ...]

    @property
    def has_stacks(self) -> bool:
        return bool(self.flags & HAS_STACKS)


@dataclass(frozen=True)
class Totals:
    """What the recorder counted; there only if the program came to its end."""

    events: int
    unknown_frees: int
    lost: int


@dataclass
class Trace:
    """`events` has the columns sequence, time (ns), operation, size, object (the one that ended, 0:
    none known), alignment, stack and thread. An allocation's object is its sequence. An annotated
    trace has also lifetime (ns) and lifetime_bytes of the object that an allocation made; null:
    the object did not end, or none was made."""

    header: Header
    events: pl.DataFrame
    stacks: dict[int, tuple[int, ...]] = field(default_factory=dict)  # innermost frame first
    mappings: str = ""
    totals: Totals | None = None
    damage: str | None = None  # what ended the reading before the file's end
    damaged_at: int | None = None  # the block of the file that it ended before

    def cut(self, error: DamageError) -> None:
        self.damage, self.damaged_at = str(error), error.offset


NAMES = ("sequence", "time", "operation", "size", "object", "alignment", "stack", "thread")
LIFETIMES = {"lifetime": Column.LIFETIMES, "lifetime_bytes": Column.LIFETIME_BYTES}


def decode_header(block: Block) -> Header:
    if block.kind != Kind.HEADER:
        raise DamageError(block.offset, "does not begin with a trace's header")
    scalars = block.scalars(1)
    if scalars[0] > VERSION:
        raise StrataError(
            f"written by a later version of the format ({scalars[0]}; known: {VERSION})"
        )
    scalars = block.scalars(6)
    command = bytes(block.column(Column.TEXT)).decode(errors="replace")
    version, pid, parent, realtime, monotonic, flags = scalars[:6]
    words = tuple(command.rstrip("\0").split("\0"))
    return Header(version, pid, parent, realtime, monotonic, flags, words)


def exactly(block: Block, column: Column, count: int) -> Numbers:
    numbers = varints(block.column(column), block.offset)
    if numbers.size != count:
        raise DamageError(block.offset, "events that make no sense")
    return numbers


def decode_events(block: Block) -> dict[str, Numbers]:
    count, thread, first_sequence, first_time = block.scalars(4)[:4]
    senseless = DamageError(block.offset, "events that make no sense")
    operations = np.frombuffer(block.column(Column.OPERATIONS), np.uint8)
    if (
        first_time > MOST_TIME
        or operations.size != count
        or (count and operations.max() > Operation.FREE)
    ):
        raise senseless
    sequence = exactly(block, Column.SEQUENCE, count)
    if count and not sequence[1:].all():
        raise senseless
    sequence = np.uint64(first_sequence) + np.cumsum(sequence, dtype=np.uint64)
    times = np.uint64(first_time) + np.cumsum(exactly(block, Column.TIMES, count), dtype=np.uint64)
    allocates = operations != Operation.FREE
    size = np.zeros(count, np.uint64)
    size[allocates] = exactly(block, Column.SIZES, int(allocates.sum()))
    named = operations >= Operation.REALLOC
    objects = np.zeros(count, np.uint64)
    objects[named] = sequence[named] - exactly(block, Column.OBJECTS, int(named.sum()))
    aligned = operations == Operation.ALIGNED
    logs = np.frombuffer(block.column(Column.ALIGNMENTS), np.uint8)
    if logs.size != int(aligned.sum()) or (logs.size and logs.max() > 63):
        raise senseless
    alignment = np.zeros(count, np.uint64)
    alignment[aligned] = np.uint64(1) << logs.astype(np.uint64)
    stack = np.zeros(count, np.uint64)
    if Column.STACK_IDS in block.columns:
        stack[allocates] = exactly(block, Column.STACK_IDS, int(allocates.sum()))
    if Column.THREADS in block.columns:
        threads = exactly(block, Column.THREADS, count)
    else:
        threads = np.full(count, thread, np.uint64)
    if count and (
        not threads.all()
        or bool(threads.max() > MOST_THREAD)
        or not sequence.all()
        or bool(sequence[0] < first_sequence or (sequence[1:] <= sequence[:-1]).any())
        or bool(times[0] < first_time or (times[1:] < times[:-1]).any())
        or bool(times[-1] > MOST_TIME)
        or bool((objects >= sequence).any())
    ):
        raise senseless
    columns = (sequence, times, operations.astype(np.uint64), size, objects, alignment)
    decoded = dict(zip(NAMES, (*columns, stack, threads), strict=True))
    decoded.update(decode_lifetimes(block, allocates))
    return decoded


def decode_lifetimes(block: Block, allocates: NDArray[np.bool_]) -> dict[str, Numbers]:
    """As written: 0 where no object ended, else one more than its lifetime. Empty if the trace is
    not annotated."""
    if not block.columns.keys() >= set(LIFETIMES.values()):
        return {}
    decoded = {name: np.zeros(allocates.size, np.uint64) for name in LIFETIMES}
    for name, column in LIFETIMES.items():
        decoded[name][allocates] = exactly(block, column, int(allocates.sum()))
    first, second = decoded.values()
    if bool(((first == 0) != (second == 0)).any()):
        raise DamageError(block.offset, "events that make no sense")
    return decoded


def lifetime_columns(parts: list[dict[str, Numbers]]) -> dict[str, pl.Series]:
    """Of all events; blocks without lifetimes have nulls. Empty if no block has any."""
    if not any(p.keys() >= LIFETIMES.keys() for p in parts):
        return {}
    columns = {}
    for name in LIFETIMES:
        written = [p.get(name, np.zeros(p["sequence"].size, np.uint64)) for p in parts]
        raw = np.concatenate(written)
        known = pl.Series(name, np.where(raw == 0, np.uint64(0), raw - np.uint64(1)))
        columns[name] = pl.select(pl.when(pl.Series(raw != 0)).then(known).alias(name)).to_series()
    return columns


def decode_stacks(block: Block, stacks: dict[int, tuple[int, ...]]) -> None:
    count, first = block.scalars(2)[:2]
    depths = varints(block.column(Column.DEPTHS), block.offset)
    shared = varints(block.column(Column.SHARED), block.offset)
    differences = unzigzag(varints(block.column(Column.FRAMES), block.offset))
    before = np.concatenate((np.zeros(1, np.uint64), depths[:-1]))
    if (
        not depths.size == shared.size == count
        or (count and depths.max() > MOST_FRAMES)
        or bool((shared > depths).any() or (shared > before[:count]).any())
        or int((depths - shared).sum()) != differences.size
    ):
        raise DamageError(block.offset, "stacks that make no sense")
    frames = np.cumsum(differences, dtype=np.uint64).tolist()
    outermost_first: list[int] = []
    at = 0
    for number, (depth, same) in enumerate(zip(depths.tolist(), shared.tolist(), strict=True)):
        end = at + depth - same
        outermost_first = outermost_first[:same] + frames[at:end]
        stacks[first + number] = tuple(reversed(outermost_first))
        at = end


def read_bytes(path: Path) -> memoryview:
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise StrataError(f"{path}: empty, not a trace")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except UnreadableError as error:
        raise StrataError(f"{path}: {error}") from error
    except OSError as error:
        raise StrataError(f"{path}: {why_refused(error)}") from error


def joined(parts: list[dict[str, Numbers]]) -> pl.DataFrame:
    """All events in order. Takes the columns out of `parts`, so that they are not there twice."""
    lifetimes = lifetime_columns(parts)
    empty = np.zeros(0, np.uint64)
    columns: dict[str, Any] = {
        n: np.concatenate([p.pop(n) for p in parts]) if parts else empty for n in NAMES
    }
    parts.clear()
    return pl.DataFrame(columns | lifetimes).sort("sequence")


def first_repeat(parts: list[dict[str, Numbers]]) -> int:
    """Which part is the first that has a call's number which one before it has too."""
    numbers = np.concatenate([p["sequence"] for p in parts])
    order = np.argsort(numbers, kind="stable")
    again = order[1:][numbers[order[1:]] == numbers[order[:-1]]]
    ends = np.cumsum([p["sequence"].size for p in parts])
    return int(np.searchsorted(ends, again.min(), "right"))


def parse(data: memoryview, name: str) -> Trace:
    """The trace in `data`; `name` is for messages. What follows damage is left out."""
    trace: Trace | None = None
    parts: list[dict[str, Numbers]] = []
    offsets: list[int] = []  # of the parts' blocks
    try:
        for block in blocks(data):
            if trace is None:
                trace = Trace(decode_header(block), pl.DataFrame())
            elif block.kind == Kind.EVENTS:
                if trace.totals is not None:
                    raise DamageError(block.offset, "calls behind the trace's end")
                parts.append(decode_events(block))
                offsets.append(block.offset)
            elif block.kind == Kind.STACKS:
                decode_stacks(block, trace.stacks)
            elif block.kind == Kind.MAPPINGS:
                trace.mappings = bytes(block.column(Column.TEXT)).decode(errors="replace")
            elif block.kind == Kind.END:
                trace.totals = Totals(*block.scalars(3)[:3])
    except DamageError as error:
        if trace is None:
            raise StrataError(f"{name}: not a trace of Strata's ({error})") from error
        trace.cut(error)
    except StrataError as error:
        raise StrataError(f"{name}: {error}") from error
    if trace is None:
        raise StrataError(f"{name}: not a trace of Strata's")
    trace.events = joined(parts)
    numbers = trace.events["sequence"].to_numpy()
    if bool((numbers[1:] == numbers[:-1]).any()):
        good = blocks(data[: trace.damaged_at])
        parts = [decode_events(block) for block in good if block.kind == Kind.EVENTS]
        place = first_repeat(parts)
        trace.events = joined(parts[:place])
        trace.totals = None
        trace.cut(DamageError(offsets[place], "calls with the numbers of others"))
    return trace


def read_trace(path: Path) -> Trace:
    """The trace in a file, as far as it is good; StrataError if nothing of it is."""
    return parse(read_bytes(path), str(path))
