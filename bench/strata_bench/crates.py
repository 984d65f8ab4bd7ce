"""Recent allocators from their Rust crates, linked to preloadable libraries.

Each member of bench/peers/ pins one crate. Cargo fetches and builds it; the static library or the
sources it carries become one shared library that defines malloc and the rest of the API.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
PEERS = BENCH / "peers"
SHIMS = PEERS / "shims"

SHARED = ["-shared", "-fPIC", "-pthread", "-Wl,-z,now", "-Wl,--no-undefined"]
OPTIMISED = ["-O3", "-DNDEBUG", "-fomit-frame-pointer", "-ftls-model=initial-exec", "-w"]


class PeerUnavailableError(Exception):
    """This peer cannot be had on this machine; the text says why in one line."""


@dataclass(frozen=True)
class Crate:
    """Where cargo left one crate: its sources and the output of its build script."""

    source: Path
    out: Path


@dataclass(frozen=True)
class Recipe:
    """How one crate becomes a shared library: the arguments of the linking g++ call."""

    crate: str
    version: str
    link: Callable[[Crate], list[str]]
    member: str = ""  # of bench/peers, if it has not the recipe's name
    compiler: str = "cc"  # of the crate's C: some is newer than the system's


def _whole(archive: Path) -> list[str]:
    return ["-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive"]


def _mimalloc(crate: Crate) -> list[str]:
    return _whole(crate.out / "libmimalloc.a")


def _jemalloc(crate: Crate) -> list[str]:
    return [*_whole(crate.out / "lib" / "libjemalloc_pic.a"), "-lm", "-ldl"]


def _snmalloc(crate: Crate) -> list[str]:
    override = crate.source / "upstream" / "src" / "snmalloc" / "override"
    return [
        *OPTIMISED,
        "-std=c++20",
        "-mcx16",
        "-fvisibility=hidden",
        "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
        '-DSNMALLOC_EXPORT=__attribute__((visibility("default")))',
        f"-I{override.parent.parent}",
        str(override / "malloc.cc"),
        str(override / "new.cc"),
        "-latomic",
    ]


def _snmalloc_check(crate: Crate) -> list[str]:
    return [*_snmalloc(crate), "-DSNMALLOC_CHECK_CLIENT"]


def _mimalloc_secure(crate: Crate) -> list[str]:
    """Compiled anew with all that MI_SECURE switches on: the crate's own archive has none."""
    root = next(crate.source.glob("c_src/mimalloc/v3/src/static.c")).parent.parent
    flags = ["-O3", "-DNDEBUG", "-fPIC", "-ftls-model=initial-exec", "-w", "-DMI_SECURE=4"]
    flags += ["-DMI_MALLOC_OVERRIDE=1", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT"]
    return ["-x", "c", *flags, f"-I{root / 'include'}", str(root / "src/static.c"), "-x", "none"]


def _hardened(crate: Crate) -> list[str]:
    return _whole(crate.out / "libhardened_malloc.a")


def _tcmalloc(crate: Crate) -> list[str]:
    sources = crate.out / "patched_deps" / "c_src"
    return [
        *OPTIMISED,
        "-std=c++17",
        "-DTCMALLOC_INTERNAL_8K_PAGES",
        "-DNOMINMAX",
        f"-I{sources / 'tcmalloc'}",
        f"-I{sources / 'abseil-cpp'}",
        str(SHIMS / "tcmalloc.cpp"),
        str(crate.out / "libtcmalloc.a"),
    ]


RECIPES = {
    "mimalloc": Recipe("libmimalloc-sys", "3.3.2", _mimalloc),
    "mimalloc-secure": Recipe("libmimalloc-sys", "3.3.2", _mimalloc_secure, "mimalloc"),
    "hardened": Recipe("hardened-malloc-sys", "of 2026-07", _hardened, compiler="clang-19"),
    "jemalloc": Recipe("tikv-jemalloc-sys", "5.3.1", _jemalloc),
    "snmalloc": Recipe("snmalloc-sys", "0.7.6", _snmalloc),
    "snmalloc-check": Recipe("snmalloc-sys", "0.7.6", _snmalloc_check, "snmalloc"),
    "tcmalloc": Recipe("libtcmalloc-sys", "of 2025-06", _tcmalloc),
}


def _run(command: list[str], log: Path, env: dict[str, str] | None = None) -> str:
    """Runs a build step with its messages in `log`; gives its standard output."""
    with log.open("a") as errors:
        errors.write(f"$ {' '.join(command)}\n")
        errors.flush()
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False, env=env
        )
    if done.returncode != 0:
        raise PeerUnavailableError(f"{command[0]} failed, see {log}")
    return done.stdout


def _cargo_build(member: str, recipe: Recipe, target: Path, log: Path) -> Crate:
    crate = recipe.crate
    if shutil.which("cargo") is None:
        raise PeerUnavailableError("cargo is not installed")
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "CC": recipe.compiler}
    env.pop("LD_PRELOAD", None)
    output = _run(
        [
            *("cargo", "build", "--release", "--locked", "--message-format=json"),
            *("--manifest-path", str(PEERS / "Cargo.toml"), "-p", f"peer-{member}"),
        ],
        log,
        env,
    )
    source: Path | None = None
    out: Path | None = None
    for line in output.splitlines():
        message = json.loads(line)
        package = str(message.get("package_id", ""))
        if f"#{crate}@" not in package:
            continue
        if message.get("reason") == "build-script-executed":
            out = Path(message["out_dir"])
        elif "manifest_path" in message:
            source = Path(message["manifest_path"]).parent
    if source is None or out is None:
        raise PeerUnavailableError(f"cargo said nothing of {crate}, see {log}")
    return Crate(source, out)


def _stamp(member: str) -> str:
    """Changes when anything that the library is made of does."""
    digest = hashlib.sha256()
    for path in [
        PEERS / "Cargo.lock",
        PEERS / "Cargo.toml",
        PEERS / (RECIPES[member].member or member) / "Cargo.toml",
        Path(__file__),
        *sorted(SHIMS.iterdir()),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build(member: str, out_dir: Path) -> Path:
    """The shared library of one peer, built if it is missing or out of date."""
    library = out_dir / f"lib{member}-crate.so"
    stamp_file = out_dir / f"{member}.stamp"
    stamp = _stamp(member)
    if library.exists() and stamp_file.exists() and stamp_file.read_text() == stamp:
        return library
    out_dir.mkdir(parents=True, exist_ok=True)
    log = out_dir / f"{member}.log"
    log.unlink(missing_ok=True)
    recipe = RECIPES[member]
    crate = _cargo_build(recipe.member or member, recipe, out_dir / "cargo", log)
    partial = library.with_suffix(".tmp")
    _run(["g++", *SHARED, "-o", str(partial), *recipe.link(crate)], log)
    partial.rename(library)
    stamp_file.write_text(stamp)
    return library


def locked(crate: str) -> str:
    """The version of a crate that Cargo.lock pins."""
    packages = tomllib.loads((PEERS / "Cargo.lock").read_text())["package"]
    return next(str(p["version"]) for p in packages if p["name"] == crate)
