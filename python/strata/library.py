"""Finds libstrata.so: the option, STRATA_LIB, the checkout, this package's own folder, as a wheel
has it, the installed prefix, the linker."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from strata.elf import ET_DYN, ElfFacts, read_elf
from strata.errors import StrataError, why_refused
from strata.files import MOST_BINARY, read_file

NAMES = ("libstrata.so", "libstrata.so.0")
MUSL_NAME = "libstrata-musl.so"
MARKER = b"strata_version"  # every build of the library exports it
HEAP_MARKER = b"strata_heap_name"  # and this, every other heap made into a library
DEFAULT_HEAP = "strata"


def checkouts() -> Iterator[Path]:
    """Roots of the source tree that this package or its environment sits in."""
    for start in (Path(__file__).resolve(), Path(sys.prefix).resolve()):
        for folder in start.parents:
            if (folder / "include" / "strata").is_dir() and (folder / "python").is_dir():
                yield folder


def library_folders() -> Iterator[Path]:
    """Where a wheel, `make install` or a package may have put the library."""
    yield Path(__file__).resolve().parent / "lib"
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, "/usr/local", "/usr")):
        for folder in ("lib", f"lib/{multiarch}", "lib64"):
            yield Path(prefix, folder)


def from_linker() -> Iterator[Path]:
    """What the dynamic linker's cache knows by our soname."""
    for tool in ("ldconfig", "/sbin/ldconfig"):
        try:
            listing = subprocess.run([tool, "-p"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        for line in listing.stdout.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and name.split(" ", 1)[0] in NAMES:
                yield Path(path)
        return


def check_library(path: Path, named_by: str, marker: bytes = MARKER) -> ElfFacts:
    """The library's ELF facts; a clear error if the linker could not preload this file."""
    try:
        facts = read_elf(path)
        content = read_file(path, MOST_BINARY) if facts is not None else b""
    except OSError as error:
        raise StrataError(f"{named_by} {path}: {why_refused(error)}") from error
    if facts is None or facts.type != ET_DYN:
        raise StrataError(f"{named_by} {path}: not a shared library")
    if marker not in content:
        raise StrataError(f"{named_by} {path}: a shared library, but not Strata's")
    if any(character in str(path) for character in " :\t\n"):
        raise StrataError(
            f"{named_by} {path}: LD_PRELOAD cannot hold a path with a space or a colon; "
            "name a link to it elsewhere"
        )
    return facts


def find_library(
    option: Path | None, environment: Mapping[str, str] = os.environ
) -> tuple[Path, ElfFacts]:
    """The library to preload, absolute, with its facts. Explicit names are never second-guessed."""
    explicit = (("--lib", option), ("STRATA_LIB", environment.get("STRATA_LIB")))
    for named_by, value in explicit:
        if value:
            path = Path(value).absolute()
            return path, check_library(path, named_by)
    for root in checkouts():
        path = root / "build" / "lib" / NAMES[0]
        if path.is_file():
            return path, check_library(path, "library")
    candidates = [folder / name for folder in library_folders() for name in NAMES]
    for path in (*candidates, *from_linker()):
        if path.is_file():
            return path, check_library(path, "library")
    for folder in library_folders():  # where musl is the C library, there is no other
        path = folder / MUSL_NAME
        if path.is_file():
            return path, check_library(path, "library")
    raise StrataError(
        "libstrata.so not found: install libstrata0 or the wheel strata-malloc, build it with "
        "`make lib`, or name it by --lib or STRATA_LIB"
    )


def is_for_musl(library: Path) -> bool:
    """By its name, which the build for musl gives it."""
    return library.name.startswith(MUSL_NAME)


def musl_library(library: Path) -> tuple[Path, ElfFacts] | None:
    """The build for musl that belongs to a library: beside it, in the checkout it is of, or where
    Debian's libstrata0-musl puts it."""
    folders = [library.parent, *(root / "build" / "musl" for root in checkouts())]
    folders.append(Path(f"/usr/lib/{os.uname().machine}-linux-musl"))
    for path in (folder / name for folder in folders for name in (MUSL_NAME, f"{MUSL_NAME}.0")):
        if path.is_file():
            return path, check_library(path, "library")
    return None


def libraries_beside(library: Path) -> dict[str, Path]:
    """By NAME: libstrata-NAME.so in the library's folder, or its .so.0."""
    found: dict[str, Path] = {}
    for suffix in (".so.0", ".so"):
        for path in sorted(library.parent.glob(f"libstrata-*{suffix}")):
            found[path.name.removeprefix("libstrata-").removesuffix(suffix)] = path
    return found


def heaps_beside(library: Path) -> dict[str, Path]:
    """The other heaps, by name. The recorder and the servers' pools are none."""
    beside = libraries_beside(library)
    return {name: path for name, path in beside.items() if HEAP_MARKER in path.read_bytes()}


def find_heap(
    name: str, option: Path | None, environment: Mapping[str, str] = os.environ
) -> tuple[Path, ElfFacts]:
    """The library of a heap by name, beside libstrata.so."""
    library, facts = find_library(option, environment)
    if name == DEFAULT_HEAP:
        return library, facts
    beside = libraries_beside(library)
    if name not in beside:
        there = ", ".join([DEFAULT_HEAP, *sorted(heaps_beside(library))])
        raise StrataError(
            f"--heap {name}: no libstrata-{name}.so in {library.parent}; the heaps there: {there}"
            " (`make lib` builds all)"
        )
    return beside[name], check_library(beside[name], "--heap", HEAP_MARKER)
