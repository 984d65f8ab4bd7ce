"""The file that the plugin for QEMU fills: tools/pageutil/layout.h says what lies in it. It is
sparse, so it is read, never mapped: reading a hole takes no memory."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from strata.errors import StrataError

MAGIC = 0x314C495455474150
HEADER_WORDS = 30
PAGE_BYTES = 4096
PAGE_SHIFT = 12
LEAF_SHIFT = 30
PAGES_OF_LEAF = 1 << (LEAF_SHIFT - PAGE_SHIFT)
ROOTS = 1 << (47 - LEAF_SHIFT)
COUNT_BITS = 13
GRAINS_OF_PAGE = 512
NS = 1e9

FREED = np.uint32(1 << 31)
WHOLE_PAGE = np.uint32(1 << 29)
TYPE_MASK = np.uint32((1 << 29) - 1)

Pages = NDArray[np.uint64]
Counts = NDArray[np.int64]
Bits = NDArray[np.uint8]


class Area(IntEnum):
    ROOTS = 0
    EPOCHS = 1
    RECORDS = 2
    EVENTS = 3
    TEXT = 4
    TYPES = 5
    FRAMES = 6
    LEAVES = 7


class Part(IntEnum):
    """Of a leaf, which describes 1 GiB of addresses."""

    TOUCHED_NOW = 0
    PAGES_NOW = 1
    TOUCHED_EVER = 2
    OWNERS = 3


class Kind(IntEnum):
    MAP = 1
    BREAK = 2
    MOVE = 3
    SNAPSHOT = 4


@dataclass(frozen=True)
class Event:
    """What changed a mapping."""

    kind: Kind
    start: int
    size: int
    flags: int  # of mmap; of a move, the old place
    offset: int
    text: str  # the file's path, or /proc/PID/maps


@dataclass(frozen=True)
class Epoch:
    """Times are seconds since the start."""

    begin: float
    end: float
    pages: Pages  # their numbers, in order
    units: Counts  # how many of each were touched
    events: int  # mappings that had been made at its end


@dataclass(frozen=True)
class BlockType:
    """A size class and a call stack, innermost address first."""

    size: int
    stack: tuple[int, ...]
    allocations: int


def _runs(pages: Pages) -> Iterator[tuple[int, int]]:
    """Places in `pages` of numbers that follow each other, all in one leaf."""
    if not len(pages):
        return
    breaks = (np.diff(pages) != 1) | (pages[1:] % PAGES_OF_LEAF == 0)
    edges = np.flatnonzero(breaks) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(pages)], strict=True)


class SharedFile:
    """What the plugin noted. The program should have ended."""

    def __init__(self, descriptor: int) -> None:
        self._file = descriptor
        header = os.pread(descriptor, 8 * HEADER_WORDS, 0)
        if len(header) < 8 * HEADER_WORDS or struct.unpack_from("<Q", header)[0] != MAGIC:
            raise StrataError("qemu could not load the plugin")
        words = struct.unpack(f"<{HEADER_WORDS}Q", header)
        self.unit_shift = words[1]
        self._areas = words[2:10]
        self._stride = words[10]
        self._parts = words[11:15]
        self.guest_base, self.stack, self.start_ns, self.start_unix_ns = words[15:19]
        (self._leaves, self._epochs, self._records, self._events, self._text, self._types,
         self._frame_words, self.forks, self.executes, self.lost, told) = words[19:30]  # fmt: skip
        self.knows_blocks = told != 0
        roots = self._array(Area.ROOTS, np.uint32, ROOTS)
        self._leaf_of = {int(at): int(roots[at]) - 1 for at in np.flatnonzero(roots)}

    @property
    def unit(self) -> int:
        """Bytes that a bit stands for."""
        return int(1 << self.unit_shift)

    def _read(self, offset: int, size: int) -> bytes:
        """Zeros where the file has holes, or ends."""
        parts = []
        while size > 0:
            part = os.pread(self._file, min(size, 1 << 30), offset)
            if not part:
                parts.append(bytes(size))
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)

    def _array(self, area: Area, dtype: type, count: int, first: int = 0) -> NDArray[np.generic]:
        width = np.dtype(dtype).itemsize
        return np.frombuffer(self._read(self._areas[area] + first * width, count * width), dtype)

    def _of_pages(self, pages: Pages, part: Part, bytes_of_page: int) -> Bits:
        """What a part of the leaves says of each page, a row each."""
        rows = np.zeros((len(pages), bytes_of_page), np.uint8)
        for begin, end in _runs(pages):
            first = int(pages[begin])
            leaf = self._leaf_of.get(first // PAGES_OF_LEAF)
            if leaf is None:
                continue
            at = self._areas[Area.LEAVES] + leaf * self._stride + self._parts[part]
            data = self._read(
                at + first % PAGES_OF_LEAF * bytes_of_page, (end - begin) * bytes_of_page
            )
            rows[begin:end] = np.frombuffer(data, np.uint8).reshape(-1, bytes_of_page)
        return rows

    def _bits(self, pages: Pages, part: Part) -> Bits:
        return self._of_pages(pages, part, PAGE_BYTES >> self.unit_shift >> 3)

    def touched(self, pages: Pages) -> Bits:
        """A row of bits a page, one a unit: what was touched in the whole run."""
        return self._bits(pages, Part.TOUCHED_EVER) | self._bits(pages, Part.TOUCHED_NOW)

    def owners(self, pages: Pages) -> NDArray[np.uint32]:
        """A row a page: of every 8 bytes, the type plus one, and FREED if nothing lives there."""
        rows = self._of_pages(pages, Part.OWNERS, 4 * GRAINS_OF_PAGE).view(np.uint32).copy()
        whole = rows[:, 0] & WHOLE_PAGE != 0
        rows[whole] = rows[whole, :1]
        return rows & (TYPE_MASK | FREED)

    def _pages_now(self) -> Pages:
        """Pages touched since the last epoch ended."""
        found = []
        for root, leaf in sorted(self._leaf_of.items()):
            at = self._areas[Area.LEAVES] + leaf * self._stride + self._parts[Part.PAGES_NOW]
            bits = np.frombuffer(self._read(at, PAGES_OF_LEAF // 8), np.uint8)
            numbers = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            found.append(numbers.astype(np.uint64) + np.uint64(root * PAGES_OF_LEAF))
        return np.concatenate(found) if found else np.zeros(0, np.uint64)

    def epochs(self, end_ns: int) -> list[Epoch]:
        """All of them; the last one ended with the program, at `end_ns`."""
        ends = self._array(Area.EPOCHS, np.uint64, 3 * self._epochs).reshape(-1, 3)
        rows: list[tuple[int, Pages, Counts, int]] = []
        first = 0
        for end, last, events in ends.tolist():
            rows.append((end, *self._recorded(first, last), events))
            first = last
        pages = self._pages_now()
        units = np.bitwise_count(self._bits(pages, Part.TOUCHED_NOW)).sum(axis=1, dtype=np.int64)
        if first != self._records:  # the program was killed while an epoch was being closed
            closing, counted = self._recorded(first, self._records)
            new = ~np.isin(pages, closing)
            pages, units = np.append(closing, pages[new]), np.append(counted, units[new])
        used = units > 0
        rows.append(
            (max(end_ns, rows[-1][0] if rows else 0), pages[used], units[used], self._events)
        )
        found = []
        begin = self.start_ns
        for end, numbers, counts, events in rows:
            order = np.argsort(numbers)
            times = (begin - self.start_ns) / NS, (end - self.start_ns) / NS
            found.append(Epoch(*times, numbers[order], counts[order], events))
            begin = end
        return found

    def _recorded(self, first: int, last: int) -> tuple[Pages, Counts]:
        records = self._array(Area.RECORDS, np.uint64, last - first, first).astype(np.uint64)
        counts = (records & np.uint64((1 << COUNT_BITS) - 1)).astype(np.int64)
        return records >> np.uint64(COUNT_BITS), counts

    def events(self) -> list[Event]:
        rows = self._array(Area.EVENTS, np.uint64, 7 * self._events).reshape(-1, 7)
        text = self._read(self._areas[Area.TEXT], self._text)
        return [
            Event(Kind(kind), start, size, flags, offset, os.fsdecode(text[at : at + length]))
            for kind, start, size, flags, offset, at, length in rows.tolist()
        ]

    def types(self) -> list[BlockType]:
        rows = self._array(Area.TYPES, np.uint64, 3 * self._types).reshape(-1, 3)
        words = self._array(Area.FRAMES, np.uint64, self._frame_words).tolist()
        return [
            BlockType(size, tuple(words[at + 1 : at + 1 + words[at]]) if at else (), count)
            for size, at, count in rows.tolist()
        ]
