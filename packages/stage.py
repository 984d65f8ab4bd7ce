"""What all packages are made from: installations for /usr, stripped, each in a folder.

There is one for each architecture and C library that can be built here: what the machine is, and on
x86-64 aarch64 cross-built. Each has a build of its own, because Debian's folder for libraries is
fixed when CMake configures. Debug information goes to files of its own, found by build id, as
debuggers look for it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
class Target:
    """What a package is for."""

    machine: str  # as uname has it
    libc: str

    @property
    def debian(self) -> str:
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.machine]

    @property
    def triplet(self) -> str:
        return f"{self.machine}-linux-{'musl' if self.libc == 'musl' else 'gnu'}"

    @property
    def is_cross(self) -> bool:
        return self.machine != platform.machine()

    @property
    def build(self) -> Path:
        return ROOT / "build" / f"packages-{self.debian}-{self.libc}"

    def binutil(self, name: str) -> str:
        return f"{self.machine}-linux-gnu-{name}" if self.is_cross else name

    def cmake_options(self) -> list[str]:
        toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchain-"
        if self.libc == "musl":
            return [f"{toolchain}musl.cmake", f"-DSTRATA_MACHINE={self.machine}"]
        return [f"{toolchain}{self.machine}.cmake"] if self.is_cross else []


def targets() -> list[Target]:
    """Those that can be built here, this machine's own first."""
    machines = [platform.machine()]
    if machines == ["x86_64"]:
        machines.append("aarch64")
    return [Target(machine, libc) for machine in machines for libc in ("glibc", "musl")]


@dataclass(frozen=True)
class Stage:
    """An installation under `root`/usr, and the debug files beside it."""

    target: Target
    root: Path
    debug: Path
    lint: Path  # strata-lint's part, which Debian's LLVM ties to Debian

    @property
    def usr(self) -> Path:
        return self.root / "usr"

    @property
    def libraries(self) -> Path:
        return self.usr / "lib" / self.target.triplet


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == ELF


def build_id(path: Path) -> str:
    found = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))
    if found is None:
        raise SystemExit(f"{path}: has no build id")
    return found[1]


def strip(path: Path, stage: Stage) -> None:
    """Takes the debug information out of a library or program and leaves the symbols' names."""
    objcopy = stage.target.binutil("objcopy")
    name = build_id(path)
    file = stage.debug / "usr/lib/debug/.build-id" / name[:2] / f"{name[2:]}.debug"
    file.parent.mkdir(parents=True, exist_ok=True)
    run(objcopy, "--only-keep-debug", "--compress-debug-sections", path, file)
    run(stage.target.binutil("strip"), "--strip-debug", path)
    run(objcopy, f"--add-gnu-debuglink={file}", path)


LIBRARIES = ("strata_shared", "strata_static", "strata_trace", "strata_replay")


def parts(target: Target) -> tuple[str, ...]:
    if target.libc == "musl":  # there is no C++ library to link a program with
        return LIBRARIES
    more: tuple[str, ...] = ("strata_heaps", "strata_simulate", "strata_servers")
    if target.machine == "x86_64":
        more += ("strata_pageutil_plugin", "strata_places")
    if not target.is_cross:  # LLVM is this machine's
        more += ("strata_lint_engine",)
    return LIBRARIES + more


def build(target: Target) -> None:
    run(
        *("cmake", "-S", ROOT, "-B", target.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        *("-DSTRATA_TESTS=OFF", "-DCMAKE_INSTALL_PREFIX=/usr"),
        f"-DSTRATA_LINT={'OFF' if target.is_cross or target.libc == 'musl' else 'ON'}",
        *(f"-DCMAKE_INSTALL_LIBDIR=lib/{target.triplet}", *target.cmake_options()),
    )
    run("cmake", "--build", target.build, "--target", *parts(target))


def install(target: Target, work: Path) -> Stage:
    """Builds, installs below `work` and strips what is there."""
    print(f"== building for {target.machine} and {target.libc}", flush=True)
    build(target)
    root = work / target.triplet
    stage = Stage(target, root, Path(f"{root}-debug"), Path(f"{root}-lint"))
    if target.libc == "glibc":
        run("cmake", "--install", target.build, "--prefix", "/usr", DESTDIR=str(stage.root))
    else:
        stage.libraries.mkdir(parents=True)
        for path in target.build.glob("libstrata-*.*"):
            shutil.copy2(path, stage.libraries / path.name, follow_symlinks=False)
        tools = stage.usr / "libexec/strata"
        tools.mkdir(parents=True)
        shutil.copy2(target.build / "strata-replay", tools)
    for place in ("usr/bin", "usr/share/strata/lint"):
        if (root / place).exists():
            (stage.lint / place).parent.mkdir(parents=True)
            (root / place).rename(stage.lint / place)
    for path in stage.lint.glob("usr/bin/*"):
        run(target.binutil("strip"), "--strip-debug", path)
    for path in sorted(stage.usr.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix == ".a":
            run(target.binutil("strip"), "--strip-debug", path)
        elif is_elf(path):
            strip(path, stage)
    return stage


def newest_glibc(stage: Stage, folder: Path | None = None) -> str:
    """The newest version of glibc's symbols that anything in the stage, or a folder, asks for."""
    versions = {(2, 17)}
    for path in (folder or stage.usr).rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".a" and is_elf(path):
            for found in re.findall(
                r"GLIBC_2\.(\d+)", run(stage.target.binutil("objdump"), "-T", path)
            ):
                versions.add((2, int(found)))
    return ".".join(map(str, max(versions)))
