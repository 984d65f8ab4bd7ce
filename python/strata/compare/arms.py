"""Arms of an experiment: what `--arm` names becomes a library to preload and an environment.

strata                the library that `strata run` would take
strata:SAMPLE=0       the same with options set; STRATA_ may be left out
glibc                 the C library's malloc, preloaded so that it also replaces a linked-in one
none                  nothing preloaded: whatever the program was linked to
jemalloc, mimalloc2, gperftools            Debian's packages
jemalloc-new, mimalloc3, snmalloc, tcmalloc  what `make bench` has built in this checkout
path:/x/lib.so        any library; settings may follow as with the others
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strata.elf import ET_DYN, ElfFacts, read_elf, why_not_preloadable
from strata.errors import StrataError, why_refused
from strata.launch import resolve
from strata.library import checkouts, find_library
from strata.peers import (
    CRATE_PEERS,
    DEBIAN_PEERS,
    GLIBC_NAME,
    find_system_library,
    public_environment,
)

SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
BETWEEN_SETTINGS = re.compile(r",(?=[A-Za-z_][A-Za-z0-9_]*=)")
KINDS = ("strata", "glibc", "none", *DEBIAN_PEERS, *CRATE_PEERS)


@dataclass(frozen=True)
class Arm:
    """One side of the comparison, found on this machine."""

    name: str  # as it was written
    library: Path | None
    settings: dict[str, str]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """What the measured command gets; settings of the caller's own shell are left out."""
        environment = public_environment(base) | self.settings
        if self.library is not None:
            environment["LD_PRELOAD"] = str(self.library)
        return environment

    def fingerprint(self) -> str:
        """Changes when the library does, so that a resumed run does not mix two builds."""
        if self.library is None:
            return "none"
        return hashlib.sha256(self.library.read_bytes()).hexdigest()[:16]


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """`KIND[:NAME=VALUE,...]` as the kind and its settings."""
    head, colon, rest = spec, "", ""
    for match in re.finditer(":", spec):
        if SETTING.match(spec, match.end()):
            head, colon, rest = spec[: match.start()], ":", spec[match.end() :]
            break
    if not head or (not colon and spec.endswith(":")):
        raise StrataError(f"--arm {spec!r}: expected NAME or NAME:OPTION=VALUE,OPTION=VALUE")
    settings: dict[str, str] = {}
    for pair in BETWEEN_SETTINGS.split(rest) if rest else []:
        name, _, value = pair.partition("=")
        settings[name] = value
    return head, settings


def _crate_library(member: str) -> Path | None:
    for root in checkouts():
        path = root / "build" / "bench" / "peers" / f"lib{member}-crate.so"
        if path.is_file():
            return path
    return None


def _system(name: str, file: str, package: str) -> Path:
    path = find_system_library(file)
    if path is None:
        raise StrataError(f"arm {name}: {file} not found; `apt install {package}` installs it")
    return path


def _library(spec: str, kind: str, lib: Path | None) -> tuple[Path | None, dict[str, str]]:
    if kind.startswith("path:"):
        path = Path(kind.removeprefix("path:")).absolute()
        _check(spec, path)
        return path, {}
    if kind == "strata":
        return find_library(lib)[0], {}
    if kind == "glibc":
        return _system(kind, GLIBC_NAME, "libc6"), {}
    if kind == "none":
        return None, {}
    if kind in DEBIAN_PEERS:
        package, file = DEBIAN_PEERS[kind]
        return _system(kind, file, package), {}
    if kind in CRATE_PEERS:
        member, settings = CRATE_PEERS[kind]
        library = _crate_library(member)
        if library is None:
            raise StrataError(f"arm {kind}: not built here; `make bench QUICK=1` builds it")
        return library, dict(settings)
    raise StrataError(f"--arm {spec!r}: unknown; there are {', '.join(KINDS)} and path:FILE")


def _check(spec: str, path: Path) -> ElfFacts:
    """A library that the linker would only complain about would measure the wrong malloc."""
    try:
        facts = read_elf(path)
    except OSError as error:
        raise StrataError(f"--arm {spec}: {why_refused(error)}") from error
    if facts is None or facts.type != ET_DYN:
        raise StrataError(f"--arm {spec}: not a shared library")
    if any(character in str(path) for character in " :\t\n"):
        raise StrataError(f"--arm {spec}: LD_PRELOAD cannot hold a path with a space or a colon")
    return facts


def find_arm(spec: str, lib: Path | None = None) -> Arm:
    """The arm that a `--arm` describes, or a clear error."""
    kind, settings = split_spec(spec)
    library, needed = _library(spec, kind, lib)
    if kind == "strata":
        settings = {
            name if name.startswith("STRATA_") else f"STRATA_{name.upper()}": value
            for name, value in settings.items()
        }
    return Arm(spec, library, needed | settings)


def find_arms(specs: list[str], lib: Path | None = None) -> list[Arm]:
    if len(specs) < 2:
        raise StrataError("give two or more --arm; the others are compared with the first")
    twice = {s for s in specs if specs.count(s) > 1}
    if twice:
        raise StrataError(f"--arm {sorted(twice)[0]!r} is given twice")
    return [find_arm(spec, lib) for spec in specs]


def obstacle(arm: Arm, command: str, environment: Mapping[str, str]) -> str | None:
    """Why the arm's library would not get into the command, or None if it would."""
    if arm.library is None:
        return None
    facts = read_elf(arm.library)
    return None if facts is None else why_not_preloadable(resolve(command, environment), facts)
