"""What a build folder holds: its programs and libraries, and the bitcode that strata-cc kept of
what they are made of."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from strata.errors import StrataError
from strata.files import check_there
from strata.lint.archives import members, noted_behind
from strata.lint.wrapper import SECTION, bitcode_of, bitcode_path, is_llvm

OBJECT = 1
DYNAMIC = 6
NEEDED, SONAME, RPATH, RUNPATH = 1, 14, 15, 29
TEXT = re.compile(rb"[^\0]*")


@dataclass(frozen=True)
class Program:
    """What is analysed as one: a program, a library, or all that went into neither."""

    name: str
    bitcode: tuple[Path, ...]
    lost: tuple[Path, ...]  # that was noted and is gone
    shared: frozenset[Path] = frozenset()  # of the bitcode, what a bigger program has whole


@dataclass(frozen=True)
class Made:
    """A linked file or an object, and the bitcode it names."""

    path: Path
    kind: int
    runs: bool
    bitcode: tuple[Path, ...]
    answers: str = ""  # the name by which others ask for it
    needs: tuple[str, ...] = ()  # libraries
    looks: tuple[str, ...] = ()  # in these folders for them


def read_made(path: Path) -> Made | None:
    """What an ELF file says; nothing if it is none of ours."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < 64 or file.read(5) != b"\x7fELF\x02":
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse(path, data)
    except (OSError, ValueError, struct.error, IndexError, OverflowError):
        return None


def read_archive(path: Path, *, late: bool = False) -> Made | None:
    """What the members of a static library name, as one object; `late`: only those of -flto."""
    bitcode: dict[Path, None] = {}
    lost: list[Path] = []
    for data in members(path, lost):
        if (noted := noted_behind(data)) is not None:
            bitcode[Path(os.fsdecode(noted))] = None
        elif bytes(data[:5]) == b"\x7fELF\x02" and (not late or re.search(rb"\.gnu\.lto_", data)):
            with contextlib.suppress(ValueError, struct.error, IndexError, OverflowError):
                made = parse(path, data)
                bitcode |= dict.fromkeys(made.bitcode if made else ())
    if bitcode and not late:  # it is ours: what is gone was, too
        bitcode |= dict.fromkeys(lost)
    return Made(path, OBJECT, runs=False, bitcode=tuple(bitcode)) if bitcode else None


def read_any(path: Path) -> Made | None:
    return read_archive(path) if path.suffix == ".a" else read_made(path)


def parse(path: Path, data: mmap.mmap | memoryview) -> Made | None:
    kind = struct.unpack_from("<H", data, 16)[0]
    (headers,) = struct.unpack_from("<Q", data, 40)
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    (programs,) = struct.unpack_from("<Q", data, 32)
    segment, segments = struct.unpack_from("<HH", data, 54)
    runs = any(
        struct.unpack_from("<I", data, programs + i * segment)[0] == 3 for i in range(segments)
    )
    sections = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
    names = sections[names_at][4]
    wanted = (SECTION.encode() + b"\0", SECTION.encode() + b".")
    text = b""
    for name, _, _, _, offset, length in sections:
        if data[names + name : names + name + len(wanted[0])] in wanted:
            text += data[offset : offset + length]
    paths = re.split(rb"(?<=\.bc)\n|\0", text)  # a name may have a newline
    bitcode = tuple(dict.fromkeys(Path(os.fsdecode(p)) for p in paths if p))
    if not bitcode:
        return None
    named = dynamic(data, headers, size, sections)
    folders = ":".join(named.get(RUNPATH, ()) or named.get(RPATH, ())).split(":")
    answers = next(iter(named.get(SONAME, ())), path.name)
    return Made(path, kind, runs, bitcode, answers, named.get(NEEDED, ()), tuple(folders))


def dynamic(
    data: mmap.mmap | memoryview, headers: int, size: int, sections: list[tuple[int, ...]]
) -> dict[int, tuple[str, ...]]:
    """The texts in the dynamic section, by their tags."""
    out: dict[int, tuple[str, ...]] = {}
    for place, (_, kind, _, _, offset, length) in enumerate(sections):
        if kind != DYNAMIC:
            continue
        (link,) = struct.unpack_from("<I", data, headers + place * size + 40)
        texts = sections[link][4]
        for at in range(offset, offset + length, 16):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag in (NEEDED, SONAME, RPATH, RUNPATH):
                found = TEXT.match(data, texts + value)
                text = found.group() if found else b""
                out[tag] = (*out.get(tag, ()), text.decode(errors="surrogateescape"))
    return out


def library_of(folders: list[Path], name: str, known: list[Made]) -> Made | None:
    """Of the libraries with the name the one in a folder where the program looks, else any: a tree
    may hold two builds."""
    places = {os.path.realpath(folder) for folder in folders}
    found = next((m for m in known if os.path.realpath(m.path.parent) in places), None)
    found = found or next(filter(None, (read_made(folder / name) for folder in folders)), None)
    return found or next(iter(known), None)


def with_libraries(made: Made, known: dict[str, list[Made]]) -> tuple[Path, ...]:
    """Its bitcode and that of the libraries it needs, as far as they are ours: those known, and
    those in the folders where it looks for them."""
    bitcode = dict.fromkeys(made.bitcode)
    seen, work = {made.answers}, [made]
    while work:
        one = work.pop()
        home = one.path.parent
        looks = [f.replace("${ORIGIN}", "$ORIGIN") for f in one.looks if f]
        here = [Path(f.replace("$ORIGIN", str(home))) for f in looks] + [home]
        for name in [n for n in one.needs if n not in seen]:
            seen.add(name)
            found = library_of(here, name, known.get(name, []))
            if found is not None:
                bitcode |= dict.fromkeys(found.bitcode)
                work.append(found)
    return tuple(bitcode)


def find(folder: Path) -> list[Program]:
    """The programs in a build folder, or in one file; the rest as one more."""
    check_there(folder)
    if folder.is_file():
        if folder.suffix == ".bc":
            return [Program(folder.name, (folder,), ())]
        if is_llvm(folder) and (late := bitcode_of(folder)).exists():  # an object of -flto
            return [Program(folder.name, (late,), ())]
        made = read_any(folder)
        if made is None:
            raise StrataError(f"{folder}: not built by strata-cc; build with CC=strata-cc first")
        return [as_program(folder.name, with_libraries(made, {}))]
    found: list[Made] = []
    loose: list[Path] = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != ".git")
        for name in sorted(files):
            path = Path(base, name)
            if name.startswith(".") and name.endswith(".bc"):
                loose.append(path.absolute())
            elif not path.is_symlink() and (made := read_any(path)):
                found.append(made)
    # of others the object is gone, or was made by another compiler since
    fresh = [b for b in loose if is_llvm(b.parent / b.name[1:].removesuffix(".bc"))]
    linked = [m for m in found if m.kind != OBJECT]
    programs: dict[frozenset[Path], tuple[str, tuple[Path, ...]]] = {}
    libraries: dict[str, list[Made]] = {}
    for made in (m for m in linked if not m.runs):
        libraries.setdefault(made.answers, []).append(made)
    for made in [m for m in linked if m.runs] + [m for m in linked if not m.runs]:
        whole = with_libraries(made, libraries)
        programs.setdefault(frozenset(whole), (made.path.name, whole))
    covered = {b for m in linked for b in m.bitcode}
    objects = [b for m in found if m.kind == OBJECT for b in m.bitcode]
    rest = [b for b in dict.fromkeys([*objects, *fresh]) if b not in covered]
    out = [as_program(name, bitcode) for name, bitcode in programs.values()]
    if any(b.exists() for b in rest):
        out.append(as_program("what is in no program", tuple(rest)))
    if not out and loose:
        raise StrataError(
            f"{folder}: the objects of its bitcode are gone, or built by another compiler since;"
            " CC=strata-cc make"
        )
    if not out:
        raise StrataError(f"{folder}: nothing in it was built by strata-cc; CC=strata-cc make")
    return share(without_parts(out))


def as_program(name: str, bitcode: tuple[Path, ...]) -> Program:
    here = tuple(b for b in bitcode if b.exists())
    return Program(name, here, tuple(b for b in bitcode if not b.exists()))


def without_parts(programs: list[Program]) -> list[Program]:
    """Leaves out what is wholly contained in another."""
    sets = [frozenset(p.bitcode) for p in programs]
    return [
        program
        for program, own in zip(programs, sets, strict=True)
        if own and not any(own < other for other in sets)
    ]


def share(programs: list[Program]) -> list[Program]:
    """Each unit belongs to the biggest program that has it. The others need it only as far as they
    use it: 203 programs of Dovecot have two libraries in common."""
    owned: set[Path] = set()
    shared: dict[int, frozenset[Path]] = {}
    for at, program in sorted(enumerate(programs), key=lambda p: -len(p[1].bitcode)):
        shared[at] = frozenset(owned.intersection(program.bitcode))
        owned.update(program.bitcode)
    return [replace(program, shared=shared[at]) for at, program in enumerate(programs)]


__all__ = ["Program", "bitcode_path", "find"]
