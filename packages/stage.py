"""What all packages are made from: an installation for /usr, stripped, in a folder.

It has a build of its own, because Debian's folder for libraries is fixed when CMake configures.
Debug information goes to files of its own, found by build id, as debuggers look for it.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "packages"
TRIPLET = "x86_64-linux-gnu"
VERSION = re.findall(r'STRATA_VERSION "(.+)"', (ROOT / "src/base/version.h").read_text())[0]
ELF = b"\x7fELF"


def run(*words: str | Path, cwd: Path = ROOT, **env: str) -> str:
    """Standard output of a command that has to succeed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=os.environ | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


@dataclass(frozen=True)
class Stage:
    """An installation under `root`/usr, and the debug files beside it."""

    root: Path
    debug: Path

    @property
    def usr(self) -> Path:
        return self.root / "usr"

    @property
    def libraries(self) -> Path:
        return next(self.usr.glob("lib/**/libstrata.so.0")).parent


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == ELF


def build_id(path: Path) -> str:
    found = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))
    if found is None:
        raise SystemExit(f"{path}: has no build id")
    return found[1]


def strip(path: Path, debug: Path) -> None:
    """Takes the debug information out of a library or program and leaves the symbols' names."""
    name = build_id(path)
    file = debug / "usr/lib/debug/.build-id" / name[:2] / f"{name[2:]}.debug"
    file.parent.mkdir(parents=True, exist_ok=True)
    run("objcopy", "--only-keep-debug", "--compress-debug-sections", path, file)
    run("strip", "--strip-debug", path)
    run("objcopy", f"--add-gnu-debuglink={file}", path)


PARTS = (
    "strata_shared", "strata_static", "strata_heaps", "strata_trace", "strata_replay",
    "strata_simulate", "strata_pageutil_plugin", "strata_places", "strata_servers",
)  # fmt: skip


def build() -> None:
    run(
        *("cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        *("-DSTRATA_TESTS=OFF", "-DCMAKE_INSTALL_PREFIX=/usr"),
        f"-DCMAKE_INSTALL_LIBDIR=lib/{TRIPLET}",
    )
    run("cmake", "--build", BUILD, "--target", *PARTS)


def install(work: Path) -> Stage:
    """Builds, installs below `work` and strips what is there."""
    build()
    stage = Stage(work / "stage", work / "debug")
    run("cmake", "--install", BUILD, "--prefix", "/usr", DESTDIR=str(stage.root))
    for path in sorted(stage.usr.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix == ".a":
            run("strip", "--strip-debug", path)
        elif is_elf(path):
            strip(path, stage.debug)
    return stage


def newest_glibc(stage: Stage) -> str:
    """The newest version of glibc's symbols that anything in the stage asks for."""
    versions = {(2, 17)}
    for path in stage.usr.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".a" and is_elf(path):
            for found in re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", path)):
                versions.add((2, int(found)))
    return ".".join(map(str, max(versions)))
