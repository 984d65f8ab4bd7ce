"""What the dynamic linker will do with a file: just enough of ELF to tell before it runs.

`strata run` uses it to say up front that a program cannot be preloaded (static, set-uid, another
architecture), and to refuse a library that the linker would only skip with a complaint.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from strata.files import UnreadableError, open_file

ET_DYN = 3
PT_INTERP = 3
CAPABILITY_ATTRIBUTE = "security.capability"
MAX_SCRIPT_DEPTH = 4  # the kernel follows this many interpreters before ELOOP


@dataclass(frozen=True)
class ElfFacts:
    """The header fields that decide whether a preload can work."""

    bits: int
    little_endian: bool
    machine: int
    type: int
    interpreter: str | None

    def same_machine(self, other: ElfFacts) -> bool:
        return (self.bits, self.little_endian, self.machine) == (
            other.bits,
            other.little_endian,
            other.machine,
        )


def _open(path: Path) -> BinaryIO:
    """OSError also for what is no file: a pipe would be waited for."""
    try:
        return open_file(path)
    except UnreadableError as error:
        raise OSError(0, str(error)) from error


def read_elf(path: Path) -> ElfFacts | None:
    """The facts of an ELF file, or None if it is not one (or is cut short)."""
    with _open(path) as file:
        ident = file.read(16)
        if len(ident) < 16 or ident[:4] != b"\x7fELF":
            return None
        bits = {1: 32, 2: 64}.get(ident[4])
        order = {1: "<", 2: ">"}.get(ident[5])
        if bits is None or order is None:
            return None
        layout = order + ("HHIQQQIHHHHHH" if bits == 64 else "HHIIIIIHHHHHH")
        header = file.read(struct.calcsize(layout))
        if len(header) < struct.calcsize(layout):
            return None
        fields = struct.unpack(layout, header)
        interpreter = None
        for index in range(fields[9]):
            file.seek(fields[4] + index * fields[8])
            entry = file.read(fields[8])
            wide = struct.calcsize(order + ("IIQQQQQQ" if bits == 64 else "IIIIIIII"))
            if len(entry) < wide:
                return None
            if struct.unpack_from(order + "I", entry)[0] != PT_INTERP:
                continue
            if bits == 64:
                offset, size = struct.unpack_from(order + "8xQ16xQ", entry)
            else:
                offset, size = struct.unpack_from(order + "4xI8xI", entry)
            file.seek(offset)
            interpreter = os.fsdecode(file.read(size).rstrip(b"\0"))
        return ElfFacts(bits, order == "<", fields[1], fields[0], interpreter)


def script_interpreter(path: Path) -> str | None:
    """The program that a `#!` script names, or None if the file is not a script."""
    with _open(path) as file:
        line = file.read(256).split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return None
    words = line[2:].split()
    return os.fsdecode(words[0]) if words else None


def gains_privilege(path: Path) -> bool:
    """Whether running the file makes the linker ignore a preload named by its path."""
    status = path.stat()
    if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
        return True
    if status.st_mode & stat.S_ISGID and status.st_gid != os.getegid():
        return True
    try:
        os.getxattr(path, CAPABILITY_ATTRIBUTE)
    except OSError:
        return False
    return os.geteuid() != 0


def _interpreted_by(program: Path) -> Path:
    """What runs a script in the end; the program itself if it is none."""
    for _ in range(MAX_SCRIPT_DEPTH):
        interpreter = script_interpreter(program)
        if interpreter is None:
            break
        program = Path(interpreter)
    return program


def uses_musl(program: Path) -> bool:
    """Whether musl's loader starts the program; False if that can't be read."""
    try:
        facts = read_elf(_interpreted_by(program))
    except OSError:
        return False
    return facts is not None and facts.interpreter is not None and "ld-musl" in facts.interpreter


def why_not_preloadable(program: Path, library: ElfFacts, *, for_musl: bool = False) -> str | None:
    """One reason why the linker would not load `library` into `program`, or None if it would."""
    try:
        program = _interpreted_by(program)
        facts = read_elf(program)
        if facts is None:
            return None
        if facts.interpreter is None:
            return f"{program} is statically linked"
        if gains_privilege(program):
            return f"{program} gains privileges when it starts, so the linker ignores preloads"
        if not facts.same_machine(library):
            return f"{program} is built for another architecture than the library"
        if ("ld-musl" in facts.interpreter) is not for_musl:
            mine, other = ("musl", "glibc") if for_musl else ("glibc", "musl")
            return f"{program} uses {other}, and the library is built for {mine}"
    except OSError:
        return None  # unreadable, yet perhaps executable: the check of the running process tells
    return None
