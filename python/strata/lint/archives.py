"""Static libraries: their members, and the note that strata-cc puts behind an object of -flto."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
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


def noted_behind(data: bytes | memoryview) -> bytes | None:
    """The path that such a block names."""
    if data[: len(LLVM_MAGIC)] != LLVM_MAGIC or data[-len(MARK) :] != MARK:
        return None
    end = len(data) - len(MARK) - 4
    (length,) = struct.unpack_from("<I", data, end)
    at = end - length - (-length % 4)
    return bytes(data[at : at + length]) if at > 0 else None


def member_name(name: bytes, names: bytes) -> bytes:
    """GNU's: `name/`, or the place of a long one in the table of names."""
    if name[:1] == b"/" and name[1:].isdigit():
        at = int(name[1:])
        return names[at : names.find(b"\n", at)].removesuffix(b"/")
    return name.removesuffix(b"/")


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(path)
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as whole,
    ):
        yield whole


def elsewhere(path: Path, lost: list[Path]) -> Iterator[memoryview]:
    """What a thin archive only names."""
    try:
        with mapped(path) as data:
            yield data
    except OSError:
        lost.append(path)
    except ValueError:  # empty, or no name
        pass


def parse(path: Path, data: memoryview, lost: list[Path]) -> Iterator[memoryview]:
    thin = data[: len(THIN)] == THIN
    names = b""
    at = len(ARCHIVE)
    while at + HEADER <= len(data) and bytes(data[at + 58 : at + HEADER]) == b"`\n":
        name, digits = (bytes(data[at + a : at + b]).rstrip(b" ") for a, b in ((0, 16), (48, 58)))
        if not digits.isdigit():
            return
        size = int(digits)
        at += HEADER
        own = name in (b"/", b"//", b"/SYM64/")
        if name == b"//":
            names = bytes(data[at : at + size])
        elif not own and thin:
            yield from elsewhere(path.parent / os.fsdecode(member_name(name, names)), lost)
        elif not own:
            with data[at : at + size] as member:
                yield member
        if own or not thin:
            at += size + size % 2


def members(path: Path, lost: list[Path]) -> Iterator[memoryview]:
    """The files in an archive, each good until the next; none if it is no archive, or as far as it
    is whole. `lost` gets those that a thin one names and that are gone."""
    try:
        with mapped(path) as data:
            if data[: len(ARCHIVE)] in (ARCHIVE, THIN):
                yield from parse(path, data, lost)
    except (OSError, ValueError):
        pass
