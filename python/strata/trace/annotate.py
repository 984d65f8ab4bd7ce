"""`strata trace --annotate`: writes the lifetime of each object beside the call that made it: two
more columns of each block of events (docs/trace-format.md). Everything else stays as it is."""

from __future__ import annotations

import os
import stat
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strata.errors import StrataError, why_refused
from strata.files import follow
from strata.trace.analyze import objects
from strata.trace.format import (
    BLOCK_HEADER,
    COLUMN_HEADER,
    MAGIC,
    MOST_PAYLOAD,
    Block,
    Column,
    Kind,
    Numbers,
    Operation,
    blocks,
)
from strata.trace.read import decode_events, parse, read_bytes

ADDED = (Column.LIFETIMES, Column.LIFETIME_BYTES)
LARGEST = np.uint64(2**64 - 2)


def encode_varints(numbers: Numbers) -> bytes:
    """The LEB128 numbers that format.varints reads."""
    lengths = np.ones(numbers.size, np.int64)
    for place in range(1, 10):
        lengths += numbers >= np.uint64(1) << np.uint64(7 * place)
    ends = np.cumsum(lengths)
    raw = np.zeros(int(ends[-1]) if ends.size else 0, np.uint8)
    starts = ends - lengths
    for place in range(10):
        there = np.flatnonzero(lengths > place)
        digit = (numbers[there] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        more = (lengths[there] > place + 1).astype(np.uint8) << 7
        raw[starts[there] + place] = digit | more
    return raw.tobytes()


def encode_block(kind: int, columns: dict[int, bytes | memoryview]) -> bytes:
    payload = b"".join(
        COLUMN_HEADER.pack(column, len(data)) + bytes(data) for column, data in columns.items()
    )
    if len(payload) > MOST_PAYLOAD:
        raise StrataError("a block of it has no room for lifetimes")
    head = BLOCK_HEADER.pack(MAGIC, kind, len(payload), 0)[:12]
    crc = zlib.crc32(payload, zlib.crc32(head))
    return head + crc.to_bytes(4, "little") + payload


def as_written(lifetimes: pl.Series) -> Numbers:
    """One more than the lifetime; 0 for what did not end."""
    known = lifetimes.cast(pl.Int64, wrap_numerical=True).fill_null(0).to_numpy()
    result: Numbers = np.minimum(known.astype(np.uint64), LARGEST) + np.uint64(1)
    result[lifetimes.is_null().to_numpy()] = 0
    return result


class Lifetimes:
    """The lifetime columns of any block of a trace."""

    def __init__(self, table: pl.DataFrame) -> None:
        self.born: NDArray[np.uint64] = table["born_at"].to_numpy()
        self.nanoseconds = as_written(table["lifetime"])
        self.bytes = as_written(table["lifetime_bytes"])

    def annotated(self, block: Block) -> bytes:
        events = decode_events(block)
        allocates = events["operation"] != Operation.FREE
        rows = np.searchsorted(self.born, events["sequence"][allocates])
        columns: dict[int, bytes | memoryview] = {
            c: data for c, data in block.columns.items() if c not in ADDED
        }
        columns[Column.LIFETIMES] = encode_varints(self.nanoseconds[rows])
        columns[Column.LIFETIME_BYTES] = encode_varints(self.bytes[rows])
        return encode_block(block.kind, columns)


def write_whole(output: Path, parts: list[bytes | memoryview]) -> None:
    """All of it or nothing, also where `output` is what was read. A link stays one, and a file that
    was there keeps its permissions."""
    name = ""
    output = Path(os.path.realpath(follow(output)))
    try:
        there = output.exists()
        if there and not output.is_file():  # a pipe, a device
            with output.open("wb") as file:
                file.writelines(parts)
            return
        handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        umask = os.umask(0)
        os.umask(umask)
        mode = stat.S_IMODE(output.stat().st_mode) if there else 0o666 & ~umask
        Path(name).chmod(mode)
        Path(name).replace(output)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise StrataError(f"{output}: {why_refused(error)}") from error


def annotate(path: Path, output: Path, say: Callable[[str], None]) -> None:
    data = read_bytes(path)
    trace = parse(data, str(path))
    if trace.damage is not None:
        say(f"{path}: {trace.damage}; taking what is before it")
    table = objects(trace)
    lifetimes = Lifetimes(table)
    parts: list[bytes | memoryview] = []
    for block in blocks(data[: trace.damaged_at]):
        known = block.kind == Kind.EVENTS
        parts.append(lifetimes.annotated(block) if known else block.whole)
    write_whole(output, parts)
    ended = len(table) - table["lifetime"].null_count()
    say(f"{output}: {len(table):,} objects, of which {ended:,} ended")
