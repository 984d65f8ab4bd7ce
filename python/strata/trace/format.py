"""The blocks and columns of a trace file, with numpy: docs/trace-format.md, and
include/strata/trace/format.h for the same in C++. Nothing in a file is trusted."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

MAGIC = 0x31425453
VERSION = 1
BLOCK_HEADER = struct.Struct("<IB3xII")
COLUMN_HEADER = struct.Struct("<BI")
MOST_PAYLOAD = 64 << 20
HAS_STACKS = 1
MOST_FRAMES = 1024
MOST_TIME = (1 << 63) - 1  # nanoseconds
MOST_THREAD = (1 << 32) - 1

Numbers = NDArray[np.uint64]


class Kind(IntEnum):
    HEADER = 1
    EVENTS = 2
    STACKS = 3
    MAPPINGS = 4
    END = 5


KNOWN = frozenset(int(kind) for kind in Kind)


class Operation(IntEnum):
    MALLOC = 0
    CALLOC = 1
    ALIGNED = 2
    REALLOC = 3
    FREE = 4


class Column(IntEnum):
    """Ids; what they mean depends on the kind of the block."""

    SCALARS = 0
    TEXT = 1
    OPERATIONS = 1
    SEQUENCE = 2
    TIMES = 3
    SIZES = 4
    OBJECTS = 5
    ALIGNMENTS = 6
    STACK_IDS = 7
    THREADS = 8
    LIFETIMES = 10
    LIFETIME_BYTES = 11
    DEPTHS = 1
    FRAMES = 2
    SHARED = 3


class DamageError(Exception):
    """What is wrong with the file from `offset` on."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"damaged at byte {offset}: {what}")
        self.offset = offset


@dataclass(frozen=True)
class Block:
    kind: int
    offset: int
    columns: dict[int, memoryview]
    whole: memoryview  # its bytes in the file

    def column(self, column: int) -> memoryview:
        return self.columns.get(column, memoryview(b""))

    def scalars(self, least: int) -> list[int]:
        """The block's single numbers; later versions may have added some."""
        numbers: list[int] = varints(self.column(Column.SCALARS), self.offset).tolist()
        if len(numbers) < least:
            raise DamageError(self.offset, "a block without its figures")
        return numbers


def varints(data: memoryview, offset: int) -> Numbers:
    """All the LEB128 numbers in `data`."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if raw.size and (not ends.size or ends[-1] != raw.size - 1):
        raise DamageError(offset, "a number without an end")
    starts = np.concatenate(([0], ends[:-1] + 1)) if ends.size else ends
    lengths = ends - starts + 1
    longest = int(lengths.max()) if lengths.size else 0
    if longest > 10 or (longest == 10 and bool((raw[ends[lengths == 10]] > 1).any())):
        raise DamageError(offset, "a number beyond 64 bits")
    numbers = np.zeros(ends.size, np.uint64)
    for place in range(longest):
        there = np.flatnonzero(lengths > place)
        digit = (raw[starts[there] + place] & 0x7F).astype(np.uint64)
        numbers[there] |= digit << np.uint64(7 * place)
    return numbers


def unzigzag(numbers: Numbers) -> Numbers:
    """Signed differences, as unsigned numbers that wrap around."""
    one = np.uint64(1)
    return (numbers >> one) ^ (np.uint64(0) - (numbers & one))


def columns(payload: memoryview, offset: int) -> dict[int, memoryview]:
    found: dict[int, memoryview] = {}
    at = 0
    while at < len(payload):
        if len(payload) - at < COLUMN_HEADER.size:
            raise DamageError(offset, "a block whose columns make no sense")
        column, length = COLUMN_HEADER.unpack_from(payload, at)
        at += COLUMN_HEADER.size
        if length > len(payload) - at:
            raise DamageError(offset, "a block whose columns make no sense")
        found.setdefault(column, payload[at : at + length])
        at += length
    return found


def blocks(data: memoryview) -> Iterator[Block]:
    """The blocks in order; DamageError at the first that is cut off or changed."""
    at = 0
    while at < len(data):
        if len(data) - at < BLOCK_HEADER.size:
            raise DamageError(at, "cut off within a block's header")
        magic, kind, length, crc = BLOCK_HEADER.unpack_from(data, at)
        if magic != MAGIC:
            raise DamageError(at, "no block begins here")
        if length > MOST_PAYLOAD:
            raise DamageError(at, "an impossible block length")
        begin = at + BLOCK_HEADER.size
        if length > len(data) - begin:
            raise DamageError(at, "cut off within a block")
        payload = data[begin : begin + length]
        if zlib.crc32(payload, zlib.crc32(data[at : at + 12])) != crc:
            raise DamageError(at, "a block's checksum is wrong")
        found = columns(payload, at) if kind in KNOWN else {}
        yield Block(kind, at, found, data[at : begin + length])
        at = begin + length
