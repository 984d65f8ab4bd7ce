"""ELF files as symbolizing needs them: build id, where file offsets lie, function symbols, and
where functions begin by the unwind tables, which a stripped program keeps too. 64-bit
little-endian only."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from strata.files import MOST_BINARY, UnreadableError, open_file, read_within

PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME = 1, 4, 0x6474E550
SHT_SYMTAB, SHT_DYNSYM = 2, 11
STT_FUNC, STT_GNU_IFUNC = 2, 10
NT_GNU_BUILD_ID = 3
DATAREL_SDATA4, UDATA4, PCREL_SDATA4 = 0x3B, 0x03, 0x1B  # encodings that linkers write


@dataclass(frozen=True)
class Segment:
    type: int
    offset: int
    virtual: int
    size: int  # in the file
    align: int


@dataclass(frozen=True)
class Symbol:
    start: int
    size: int
    name: str


class ObjectFile:
    """Every read is checked: a file that lies about itself yields less, never an exception."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.segments: list[Segment] = []
        header = self._unpack("<16s2HI3QI6H", 0)
        self.valid = header is not None and header[0][:6] == b"\x7fELF\x02\x01"
        if header is None or not self.valid:
            return
        self._sections_at, self._sections_n = header[6], header[12]
        for index in range(header[10]):
            row = self._unpack("<2I6Q", header[5] + index * 56)
            if row is not None:
                self.segments.append(Segment(row[0], row[2], row[3], row[5], row[7]))

    @classmethod
    def open(cls, path: Path) -> ObjectFile | None:
        """The file, or None if it cannot be read or is something else."""
        try:
            with open_file(path) as file:
                if os.fstat(file.fileno()).st_size == 0 or file.read(4) != b"\x7fELF":
                    return None  # not read further: a profile may name any file as its program
            found = cls(read_within(path, MOST_BINARY))
        except (OSError, UnreadableError):
            return None
        return found if found.valid else None

    def _unpack(self, layout: str, at: int) -> tuple[Any, ...] | None:
        if at < 0 or at + struct.calcsize(layout) > len(self._data):
            return None
        return struct.unpack_from(layout, self._data, at)

    @cached_property
    def build_id(self) -> str:
        for segment in self.segments:
            if segment.type != PT_NOTE:
                continue
            step = 8 if segment.align == 8 else 4
            at, end = segment.offset, min(segment.offset + segment.size, len(self._data))
            while at + 12 <= end:
                name, size, kind = struct.unpack_from("<3I", self._data, at)
                content = at + padded(12 + name, step)
                if kind == NT_GNU_BUILD_ID and self._data[at + 12 : at + 16] == b"GNU\0":
                    return self._data[content : content + size].hex()
                at = content + padded(size, step)
        return ""

    def virtual(self, offset: int) -> int | None:
        """The address that the file gives to what stands at an offset."""
        for segment in self.segments:
            if segment.type == PT_LOAD and 0 <= offset - segment.offset < segment.size:
                return offset - segment.offset + segment.virtual
        return None

    @cached_property
    def symbols(self) -> list[Symbol]:
        """Functions by address: of the full table if there is one, else of the dynamic one."""
        tables = {}
        for index in range(self._sections_n):
            row = self._unpack("<2I4Q2I2Q", self._sections_at + index * 64)
            if row is not None and row[1] in (SHT_SYMTAB, SHT_DYNSYM):
                tables[row[1]] = row
        table = tables.get(SHT_SYMTAB) or tables.get(SHT_DYNSYM)
        if table is None:
            return []
        names = self._unpack("<2I4Q2I2Q", self._sections_at + table[6] * 64)
        if names is None:
            return []
        found = []
        for at in range(table[4], min(table[4] + table[5], len(self._data)) - 23, 24):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self._data, at)
            if info & 15 in (STT_FUNC, STT_GNU_IFUNC) and section != 0:
                begin = names[4] + name
                end = self._data.find(b"\0", begin)
                if 0 <= begin < end:
                    text = self._data[begin:end].decode("utf-8", "replace")
                    found.append(Symbol(value, size, text))
        return sorted(found, key=lambda symbol: symbol.start)

    def symbol(self, address: int) -> str | None:
        index = bisect_right(self.symbols, address, key=lambda symbol: symbol.start) - 1
        if index < 0:
            return None
        symbol = self.symbols[index]
        return symbol.name if address < symbol.start + max(symbol.size, 1) else None

    @cached_property
    def _starts(self) -> list[int]:
        """Where functions begin, by the sorted table of .eh_frame_hdr."""
        for segment in self.segments:
            if segment.type != PT_GNU_EH_FRAME:
                continue
            head = self._unpack("<4BiI", segment.offset)
            if head is None or head[1:4] != (PCREL_SDATA4, UDATA4, DATAREL_SDATA4):
                continue
            count = min(head[5], max(0, len(self._data) - segment.offset - 12) // 8)
            table = struct.unpack_from(f"<{2 * count}i", self._data, segment.offset + 12)
            return [segment.virtual + start for start in table[::2]]
        return []

    def function_start(self, address: int) -> int | None:
        index = bisect_right(self._starts, address) - 1
        return self._starts[index] if index >= 0 else None


def padded(size: int, step: int) -> int:
    return (size + step - 1) // step * step
