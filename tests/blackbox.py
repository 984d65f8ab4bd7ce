"""What the blackbox tests share: the library under test, helper programs, and ways to run both.

Everything in tests/edge, tests/process and tests/preload drives the built library from outside, as
its users do. STRATA_LIB names the library (default build/lib/libstrata.so; `none` runs on the
libc's own allocator, which tells a broken test from a broken allocator). Helper programs are
compiled on first use into blackbox beside $STRATA_BUILD_DIR, or into a temporary folder.

Where one thing is tried with every one of another (cases and cache modes, programs and heaps),
`make test` tries a part of the pairs, in which each of both stands: paired().
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CASE = re.compile(r"^CASE\((\w+)\)", re.MULTILINE)
NO_BUILTIN = ("-fno-builtin", "-Wall", "-Wextra", "-pthread")


def cases(source: Path) -> list[str]:
    """The names of the cases that a helper program declares with CASE(name)."""
    found = CASE.findall(source.read_text())
    assert found, f"{source} declares no case"
    return found


def need(program: str) -> str:
    """The path of a program; without it the test fails in CI and is skipped elsewhere."""
    path = shutil.which(program)
    if path is None:
        missing(f"{program} is not installed")
    return str(path)


def wait_until(done: Callable[[], object], seconds: float = 30) -> bool:
    """Whether it came true. The time only bounds a failure: a busy machine may need much of it."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def missing(what: str) -> None:
    """Ends the test: a failure in CI, a skip on a machine that simply lacks the thing."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def paired(number: int, of: int = 2) -> bool:
    """Whether a pair is of the part that is tried. TEST_PAIRS numbers the parts, which the stages
    of `make test` share; without it all are tried."""
    part = os.environ.get("TEST_PAIRS", "")
    return not part or (number + int(part)) % of == 0


def helpers(fresh: pytest.TempPathFactory) -> Path:
    """Where helper programs are compiled: one folder for all builds, by name and command."""
    named = os.environ.get("STRATA_BUILD_DIR")
    return Path(named).parent / "blackbox" if named else fresh.mktemp("blackbox")


@dataclass(frozen=True)
class Result:
    """What a finished program left behind."""

    args: Sequence[str]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    def explain(self) -> str:
        return (
            f"{' '.join(self.args)}: exit {self.returncode} after {self.seconds:.1f} s\n"
            f"--- stdout\n{self.stdout[-4000:]}\n--- stderr\n{self.stderr[-4000:]}"
        )

    def ok(self) -> Result:
        """Requires exit 0 with nothing on stderr, where the library must have stayed silent."""
        assert self.returncode == 0, self.explain()
        assert self.stderr == "", self.explain()
        return self

    def silent(self) -> Result:
        """Requires ok() and nothing on stdout: for programs that print only what went wrong."""
        self.ok()
        assert self.stdout == "", self.explain()
        return self

    def strata_lines(self) -> list[str]:
        """The lines that the library wrote."""
        return [line for line in self.stderr.splitlines() if line.startswith("strata:")]


@dataclass(frozen=True)
class Toolchain:
    """What helper programs are compiled with, and what runs them where the machine can't."""

    c: str = "gcc"
    cxx: str = "g++"
    emulator: tuple[str, ...] = ()


# By the name in STRATA_TARGET, which the build of another architecture or C library sets.
TOOLCHAINS = {
    "": Toolchain(),
    "aarch64": Toolchain(
        "aarch64-linux-gnu-gcc",
        "aarch64-linux-gnu-g++",
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    ),
    "musl": Toolchain("musl-gcc"),
}


@functools.cache
def _headers_beside(folder: Path) -> bytes:
    """A hash of all headers that a helper program in a folder may include."""
    key = hashlib.sha256()
    for path in sorted({*folder.glob("*.h"), *(TESTS / "edge").glob("*.h")}):
        key.update(path.read_bytes())
    for path in sorted((ROOT / "include").rglob("*.h")):
        key.update(path.read_bytes())
    return key.digest()


class Lab:
    """Compiles helper programs and runs programs with the library preloaded."""

    def __init__(
        self, library: Path | None, build: Path, toolchain: Toolchain | None = None
    ) -> None:
        self.library = library
        self._build = build
        self._toolchain = toolchain or Toolchain()

    # ---- helper programs

    def build(self, source: Path, *flags: str, name: str | None = None) -> Path:
        """Compiles one C, C++ or Rust file; the result is kept while the sources are unchanged."""
        command = self._compiler(source) + list(flags)
        key = hashlib.sha256("\0".join(command).encode())
        key.update(source.read_bytes())
        key.update(_headers_beside(source.parent))
        target = self._build / f"{name or source.stem}-{key.hexdigest()[:16]}"
        if target.exists():
            return target
        self._build.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [*command, "-o", str(partial), str(source)],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)} {source}\n{done.stderr}"
        partial.rename(target)
        return target

    def build_linked(self, source: Path, *flags: str) -> Path:
        """Linked with the library, for functions that only it has."""
        library = self.require_strata()
        include = f"-I{ROOT / 'include'}"
        link = (f"-Wl,-rpath,{library.parent}", "-Wl,--no-as-needed", str(library))
        return self.build(source, include, *link, *flags)

    def _compiler(self, source: Path) -> list[str]:
        include = f"-I{TESTS / 'edge'}"
        if source.suffix == ".c":
            return [need(self._toolchain.c), "-std=gnu11", "-O1", "-g", *NO_BUILTIN, include]
        if source.suffix == ".cpp":
            return [need(self._toolchain.cxx), "-std=c++20", "-O1", "-g", *NO_BUILTIN, include]
        assert source.suffix == ".rs", source
        return [need("rustc"), "--edition=2021", "-O"]

    # ---- running

    def environment(
        self, extra: Mapping[str, str] | None = None, *, preload: bool = True
    ) -> dict[str, str]:
        """The caller's environment without STRATA_* and preloads, plus ours and `extra`."""
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("STRATA_") and key not in ("LD_PRELOAD", "LD_BIND_NOW")
        }
        if preload and self.library is not None:
            env["LD_PRELOAD"] = str(self.library)
            env["LD_BIND_NOW"] = "1"
        env.update(extra or {})
        return env

    def run(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        preload: bool = True,
        timeout: float = 60,
        **popen: Any,
    ) -> Result:
        """Runs a program to its end; a hang fails the test and takes the whole session down."""
        command = [str(arg) for arg in args]
        begin = time.monotonic()
        with self.start(*args, env=env, preload=preload, **popen) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                seconds = time.monotonic() - begin
                late = Result(command, process.returncode, out, err, seconds)
                pytest.fail(f"still running after {timeout} s: {late.explain()}")
        return Result(command, process.returncode, out, err, time.monotonic() - begin)

    @contextlib.contextmanager
    def start(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        preload: bool = True,
        **popen: Any,
    ) -> Iterator[subprocess.Popen[str]]:
        """A running program in a session of its own, which is killed whole at the end."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        environment = self.environment(env, preload=preload)
        emulator = list(self._toolchain.emulator)
        if emulator:  # which must not load the library itself
            for name in ("LD_PRELOAD", "LD_BIND_NOW"):
                if name in environment:
                    emulator += ["-E", f"{name}={environment.pop(name)}"]
        process = subprocess.Popen(
            [*emulator, *(str(arg) for arg in args)],
            env=environment,
            text=True,
            errors="replace",
            start_new_session=True,
            **popen,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def require_strata(self) -> Path:
        """The library, for what only Strata promises; other allocators skip."""
        if self.library is None or not self.library.name.startswith("libstrata.so"):
            pytest.skip("only Strata promises this")
        return self.library

    def assert_loaded(self, pid: int) -> None:
        """The library is mapped in a running process: the preload took effect."""
        if self.library is not None:
            maps = Path(f"/proc/{pid}/maps").read_text()
            assert str(self.library) in maps, f"{self.library} is not loaded in {pid}"


# The heaps beside Strata's own, each a library of its own: `strata run --heap NAME`.
HEAPS = ("hoard", "kingsley", "lea", "llama", "obstack", "reap")


def heap_library(lab: Lab, heap: str) -> Path:
    """libstrata-HEAP.so beside the library under test."""
    path = lab.require_strata().with_name(f"libstrata-{heap}.so")
    assert path.exists(), f"{path} was not built: make lib"
    return path


def find_library() -> Path | None:
    named = os.environ.get("STRATA_LIB", str(ROOT / "build/lib/libstrata.so"))
    if named == "none":
        return None
    path = Path(named).absolute()
    if not path.exists():
        pytest.exit(f"{path} does not exist: run `make lib`, or set STRATA_LIB", returncode=2)
    return path


# ---- servers


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def connect(port: int, process: subprocess.Popen[str], timeout: float = 30) -> socket.socket:
    """A connection to a server that has just been started, as soon as it listens."""
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError):
            link = socket.create_connection(("127.0.0.1", port), timeout=30)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link
        assert process.poll() is None, f"the server ended with {process.returncode}"
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.02)


# ---- the kernel's figures


def status_kib(pid: int, field: str) -> int:
    """A figure in KiB from /proc/PID/status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise AssertionError(f"no {field} for {pid}")


def switches(pid: int) -> int:
    """How often all threads of a process have been scheduled in."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total
