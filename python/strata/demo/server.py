"""One redis-server under one allocator: on a free loopback port, checked, always stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from strata.control import ask
from strata.demo import memory
from strata.errors import StrataError
from strata.launch import is_mapped
from strata.processes import Process
from strata.redis import command, connect, info
from strata.stats import Stats, loads

START_SECONDS = 15
STOP_SECONDS = 10
LISTEN_SECONDS = 10
CRON_SECONDS = 0.5  # Redis asks its allocator ten times a second, and INFO says what it heard last
START_TRIES = 3
OTHERS_SETTINGS = ("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES", "STRATA_STATS")
# The shell enters the cgroup before anything of the server exists; setpriv ends the server with us.
LAUNCH = 'echo $$ > "$1"; shift; exec setpriv --pdeathsig KILL env "$@"'
CONFIGURATION = {
    "bind": "127.0.0.1",
    "save": "",
    "appendonly": "no",
    "daemonize": "no",
    "databases": "1",
    # Redis would switch hugepages off for itself where the system's mode is `always`
    "disable-thp": "no",
}


@dataclass(frozen=True)
class Allocator:
    """A malloc to run Redis on: what to preload, None for the one that Redis was built with."""

    name: str
    preload: Path | None


def find_redis() -> Path:
    found = shutil.which("redis-server") or shutil.which(
        "redis-server", path="/usr/bin:/usr/local/bin"
    )
    if found is None:
        raise StrataError("redis-server is not installed; `make demo` installs it")
    return Path(found)


def find_libc() -> Path:
    """The C library that this machine's programs use, to preload its malloc over jemalloc's."""
    for path in memory.mapped_files(os.getpid()):
        if Path(path).name == "libc.so.6":
            return Path(path)
    raise StrataError("glibc's libc.so.6 not found: the demo compares with glibc's malloc")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """Context manager around the process. Leaves no process, folder or cgroup behind."""

    def __init__(self, redis: Path, allocator: Allocator) -> None:
        self.allocator = allocator
        self._redis = redis
        self._cleanup = contextlib.ExitStack()
        self.pid = 0
        self.port = 0
        self.group: memory.MemoryGroup | None = None

    def __enter__(self) -> Server:
        with contextlib.ExitStack() as cleanup:
            folder = tempfile.TemporaryDirectory(prefix="strata-demo-", ignore_cleanup_errors=True)
            self._folder = Path(cleanup.enter_context(folder))
            self.group = memory.MemoryGroup.create(f"strata-demo-{os.getpid()}")
            if self.group is not None:
                cleanup.callback(self.group.remove)
            cleanup.callback(self._stop)
            self._process: subprocess.Popen[bytes] | None = None
            for attempt in range(1, START_TRIES + 1):
                self._start()
                if self._wait_until_ready():
                    break
                self._stop()
                if attempt == START_TRIES:
                    raise StrataError(
                        f"redis-server on {self.allocator.name} did not start: {self.log_tail()}"
                    )
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    def _environment(self) -> list[str]:
        """NAME=VALUE for env: the preload and nothing else, for all alike."""
        preload = self.allocator.preload
        return [] if preload is None else [f"LD_PRELOAD={preload}"]

    def _start(self) -> None:
        self.port = free_port()
        options = {**CONFIGURATION, "port": str(self.port), "dir": str(self._folder)}
        options["logfile"] = str(self._folder / "log")
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        procs = str(self.group.procs) if self.group else "/dev/null"
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(OTHERS_SETTINGS)
        }
        words = [*self._environment(), str(self._redis), *arguments]
        with (self._folder / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                ["sh", "-c", LAUNCH, "sh", procs, *words],
                env=inherited,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the server
            )
        self.pid = self._process.pid

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                if self.command("PING") == b"+PONG":
                    return True
            except OSError:
                pass
            time.sleep(0.02)
        return False

    def _stop(self) -> None:
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        self._process = None

    def log_tail(self) -> str:
        """The last line that the server or the linker wrote, for an error message."""
        for name in ("stderr", "log"):
            with contextlib.suppress(OSError):
                lines = (self._folder / name).read_text(errors="replace").split("\n")
                lines = [line for line in lines if line.strip()]
                if lines:
                    return lines[-1].strip()
        return "it said nothing"

    def check_alive(self) -> None:
        """Raises if the server has ended, with its last words."""
        if self._process is not None and (status := self._process.poll()) is not None:
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            raise StrataError(
                f"redis-server on {self.allocator.name} ended with {how}: {self.log_tail()}"
            )

    def command(self, *words: str) -> bytes:
        """One request, one reply, on a connection of its own."""
        with connect(self.port, START_SECONDS) as connection:
            return command(connection, *words)

    def info(self) -> dict[str, str]:
        with connect(self.port, START_SECONDS) as connection:
            return info(connection, "memory")

    def stats(self) -> Stats:
        """The library's own figures of this process, asked for over its control socket: a walk over
        its heap, which is for the time between two phases."""
        process = Process(self.pid)
        deadline = time.monotonic() + LISTEN_SECONDS
        # The thread that answers starts only when memory is in use: a fast fill is over before.
        while not process.listens() and time.monotonic() < deadline:
            self.check_alive()
            time.sleep(0.02)
        return loads(ask(process, "stats json"))

    def check_allocator(self) -> None:
        """Raises unless the server's data really lives in the allocator that it should.

        jemalloc's own count of allocated bytes tells: it holds the data, or next to nothing. Strata
        answers that question itself, so it must be mapped, and its live bytes account for the data.
        """
        time.sleep(CRON_SECONDS)
        info = self.info()
        used = int(info["used_memory"])
        by_jemalloc = int(info.get("allocator_allocated", "0"))
        name = self.allocator.name
        held = f"jemalloc holds {by_jemalloc} of its {used} bytes"
        if name == "jemalloc" and by_jemalloc < used // 2:
            raise StrataError(f"this redis-server does not allocate from jemalloc: {held}")
        if name == "glibc" and by_jemalloc > used // 2:
            raise StrataError(f"{name} did not take effect in redis-server: {held}")
        if name != "Strata" or self.allocator.preload is None:
            return
        if not is_mapped(self.pid, self.allocator.preload):
            raise StrataError(f"Strata did not take effect in redis-server: {self.log_tail()}")
        try:
            live = self.stats().bytes["live"]
        except StrataError as error:
            raise StrataError(f"Strata did not take effect in redis-server: {error}") from error
        if live < used // 2:
            raise StrataError(
                f"Strata did not take effect in redis-server: it holds {live} of {used} bytes"
            )
