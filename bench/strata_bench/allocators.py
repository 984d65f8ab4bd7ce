"""The allocators that are measured: Strata, glibc, Debian's packages and the crates' releases."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strata.peers import CRATE_PEERS, DEBIAN_PEERS, public_environment

from strata_bench import crates

DEBIAN = Path("/usr/lib/x86_64-linux-gnu")
GLIBC = DEBIAN / "libc.so.6"


@dataclass(frozen=True)
class Allocator:
    """One way to run a program: the library to preload and the environment it needs."""

    name: str
    version: str
    library: Path | None
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, *, force_preload: bool = False) -> dict[str, str]:
        """The environment of a measured program.

        force_preload: glibc is preloaded as well, for a program that links another malloc.
        """
        env = public_environment(os.environ)
        library = self.library
        if library is None and force_preload:
            library = GLIBC
        if library is not None:
            env["LD_PRELOAD"] = str(library)
        return env | self.env

    @property
    def options(self) -> str:
        return " ".join(f"{k}={v}" for k, v in self.env.items()) or "defaults"


@dataclass
class Field:
    """The allocators found, by name and in order, and a line for each one left out."""

    allocators: dict[str, Allocator]
    skipped: dict[str, str]


STRATA = "strata"
STRATA_KEEPING = "strata-keeping"
PEERS = ("glibc", *DEBIAN_PEERS, *CRATE_PEERS)


def package_version(package: str) -> str:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def loads(library: Path, env: dict[str, str], program: Path) -> bool:
    """Whether the loader takes the library into `program`, asked without running it."""
    done = subprocess.run(
        [str(program)],
        env=env | {"LD_TRACE_LOADED_OBJECTS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0 and str(library) in done.stdout


def find(
    lib: Path,
    strata_env: dict[str, str],
    wanted: list[str],
    build_dir: Path,
    say: Callable[[str], None],
) -> Field:
    """Finds or builds every wanted peer; Strata must be there, peers may be left out."""
    found: dict[str, Allocator] = {}
    skipped: dict[str, str] = {}
    found[STRATA] = Allocator(STRATA, "this tree", lib, strata_env)
    keeping = strata_env | {"STRATA_RELEASE": "off"}
    found[STRATA_KEEPING] = Allocator(STRATA_KEEPING, "this tree", lib, keeping)
    for name in wanted:
        if name == "glibc":
            found[name] = Allocator(name, package_version("libc6"), None)
        elif name in DEBIAN_PEERS:
            package, soname = DEBIAN_PEERS[name]
            if (DEBIAN / soname).exists():
                version = f"{package_version(package)} (Debian)"
                found[name] = Allocator(name, version, DEBIAN / soname)
            else:
                skipped[name] = f"Debian's {package} is not installed"
        else:
            member, env = CRATE_PEERS[name]
            recipe = crates.RECIPES[member]
            say(f"peer {name}: {recipe.crate}, built by cargo the first time")
            try:
                library = crates.build(member, build_dir / "peers")
            except crates.PeerUnavailableError as error:
                skipped[name] = str(error)
                continue
            version = f"{recipe.version} (crate {recipe.crate} {crates.locked(recipe.crate)})"
            found[name] = Allocator(name, version, library, env)
    return Field(found, skipped)
