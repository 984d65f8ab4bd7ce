"""Static libraries: their members, and the note that strata-cc puts behind an object of -flto."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

ARCHIVE, THIN = b"!<arch>\n", b"!<thin>\n"
HEADER = 60
LLVM_MAGIC = b"BC\xc0\xde"  # what clang -flto makes instead of an object
# A block that LLVM does not know and skips: ENTER_SUBBLOCK, number 63, abbreviations of 2 bits.
BLOCK = 1 | 63 << 2 | 2 << 10
MARK = b"strata-lint\0"


def note_behind(path: bytes) -> bytes:
    """The block for the end of LLVM's file, whose length is a multiple of 4."""
    text = path + bytes(-len(path) % 4) + struct.pack("<I", len(path)) + MARK
    return struct.pack("<II", BLOCK, len(text) // 4) + text


def noted_behind(data: bytes) -> bytes | None:
    """The path that such a block names."""
    if not data.startswith(LLVM_MAGIC) or not data.endswith(MARK):
        return None
    end = len(data) - len(MARK) - 4
    (length,) = struct.unpack_from("<I", data, end)
    at = end - length - (-length % 4)
    return data[at : at + length] if at > 0 else None


def member_name(name: bytes, names: bytes) -> bytes:
    """GNU's: `name/`, or the place of a long one in the table of names."""
    if name[:1] == b"/" and name[1:].isdigit():
        at = int(name[1:])
        return names[at : names.find(b"\n", at)].removesuffix(b"/")
    return name.removesuffix(b"/")


def parse(path: Path, data: mmap.mmap) -> Iterator[bytes]:
    thin = data[: len(THIN)] == THIN
    names = b""
    at = len(ARCHIVE)
    while at + HEADER <= len(data) and data[at + 58 : at + HEADER] == b"`\n":
        name, size = data[at : at + 16].rstrip(b" "), int(data[at + 48 : at + 58])
        at += HEADER
        own = name in (b"/", b"//", b"/SYM64/")
        if name == b"//":
            names = data[at : at + size]
        elif not own and thin:
            yield (path.parent / os.fsdecode(member_name(name, names))).read_bytes()
        elif not own:
            yield data[at : at + size]
        if own or not thin:
            at += size + size % 2


def members(path: Path) -> list[bytes]:
    """The files in an archive; none if it is no archive, or as far as it is whole."""
    found: list[bytes] = []
    try:
        with path.open("rb") as file:
            if file.read(len(ARCHIVE)) not in (ARCHIVE, THIN):
                return []
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found.extend(parse(path, data))
    except (OSError, ValueError):
        pass
    return found
