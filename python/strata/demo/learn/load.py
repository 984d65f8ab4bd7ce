"""The visitors of `make learn`, and the server that they go to.

Visitors come in peaks. In each peak all are there at once before the first goes, and all get their
rows again whoever serves them: users are drawn by a seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from strata.control import ask
from strata.demo import memory
from strata.errors import StrataError
from strata.processes import Process
from strata.stats import Stats, loads

SAMPLE_SECONDS = 0.1
START_SECONDS = 60
REPLY_SECONDS = 60
STOP_SECONDS = 60
LISTEN_SECONDS = 10


@dataclass(frozen=True)
class Load:
    """Peaks of visitors. A row takes 192 bytes on average, and one in a hundred stays."""

    peaks: int
    visitors: int = 32
    requests: int = 24  # of a visitor
    rows: int = 2000  # of a request
    users: int = 12_000
    pause_seconds: float = 1.0  # after a peak
    idle_seconds: float = 12.0  # after the last
    seed: int = 11


@dataclass
class Run:
    """What one server did and held."""

    name: str
    times: list[float] = field(default_factory=list)  # seconds since it began
    rss: list[int] = field(default_factory=list)
    live: list[tuple[float, int]] = field(default_factory=list)  # asked after each peak
    requests: int = 0
    busy_seconds: float = 0.0
    cpu_seconds: float = 0.0
    last: Stats | None = None  # after the idle time

    @property
    def held(self) -> int:
        """RSS after the idle time."""
        return self.rss[-1]

    @property
    def stood_still(self) -> float:
        """The longest time without a reading, in seconds: much more than a tenth, and the machine
        did something else."""
        return max(at - before for before, at in pairwise([0.0, *self.times]))

    @property
    def mean_rss(self) -> float:
        """From the end of the first peak on: before, nothing can lie apart yet."""
        begin = self.live[0][0]
        later = [rss for at, rss in zip(self.times, self.rss, strict=True) if at >= begin]
        return sum(later) / len(later)

    @property
    def rate(self) -> float:
        return self.requests / self.busy_seconds

    @property
    def cpu_rate(self) -> float:
        """Requests for a second of the server's CPU time, all threads."""
        return self.requests / max(self.cpu_seconds, 1e-3)


class Sampler(threading.Thread):
    """Reads a process's RSS ten times a second until stopped."""

    def __init__(self, pid: int, run: Run, began: float) -> None:
        super().__init__(daemon=True, name="sampler")
        self._pid, self._run, self._began = pid, run, began
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.is_set():
            with contextlib.suppress(OSError, IndexError, ValueError):
                self.take()
            self._done.wait(SAMPLE_SECONDS)

    def take(self) -> None:
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        self._run.rss.append(pages * memory.PAGE)
        self._run.times.append(time.monotonic() - self._began)

    def stop(self) -> None:
        self._done.set()
        self.join()


@dataclass(frozen=True)
class Server:
    port: int
    pid: int


@contextlib.contextmanager
def served(command: Sequence[str | Path], log: Path) -> Iterator[Server]:
    """The server that `command` starts. It ends when its standard input does, so also with us."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        words = process.stdout.readline().split() if readable else []
        if len(words) != 2 or not all(word.isdigit() for word in words):
            raise StrataError(f"the server did not start: {last_line(log)}")
        yield Server(int(words[0]), int(words[1]))
        process.stdin.close()
        if process.wait(STOP_SECONDS) != 0:
            raise StrataError(f"the server failed: {last_line(log)}")
    except subprocess.TimeoutExpired as error:
        raise StrataError(f"the server does not end: {last_line(log)}") from error
    finally:
        process.stdin.close()
        if process.poll() is None:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


class Visitors:
    """All visitors of one peak."""

    def __init__(self, port: int, load: Load, peak: int) -> None:
        self._port, self._load, self._peak = port, load, peak
        self._all_there = threading.Barrier(load.visitors)
        self._failure: Exception | None = None

    def come_and_go(self) -> None:
        threads = [
            threading.Thread(target=self._try_visit, args=(number,), daemon=True)
            for number in range(self._load.visitors)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise StrataError(f"a visitor failed: {self._failure}")

    def _try_visit(self, number: int) -> None:
        try:
            self._visit(number)
        except threading.BrokenBarrierError:
            pass  # another one failed, and says why
        except (OSError, ValueError) as error:
            self._failure = error
            self._all_there.abort()

    def _visit(self, number: int) -> None:
        draw = random.Random(f"{self._load.seed}:{self._peak}:{number}")
        address = ("127.0.0.1", self._port)
        with socket.create_connection(address, REPLY_SECONDS) as connection:
            for _ in range(self._load.requests):
                user = draw.randrange(self._load.users)
                connection.sendall(b"%d %d\n" % (user, self._load.rows))
                reply = b""
                while not reply.endswith(b"\n"):
                    part = connection.recv(64)
                    if not part:
                        raise ValueError("the server closed the connection")
                    reply += part
            self._all_there.wait(REPLY_SECONDS)
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1):  # its memory is free when the server closes
                raise ValueError("the server sent more than was asked for")


def stats_of(pid: int) -> Stats:
    process = Process(pid)
    deadline = time.monotonic() + LISTEN_SECONDS
    while not process.listens() and time.monotonic() < deadline:
        time.sleep(0.02)
    return loads(ask(process, "stats json"))


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(
    name: str,
    command: Sequence[str | Path],
    load: Load,
    log: Path,
    look: Callable[[int], None] = lambda _: None,
) -> Run:
    """One server under the whole load. `look` gets its pid when all is measured, before it ends."""
    run = Run(name)
    with served(command, log) as server:
        began = time.monotonic()
        sampler = Sampler(server.pid, run, began)
        sampler.start()
        try:
            for peak in range(load.peaks):
                start, cpu = time.monotonic(), cpu_of(server.pid)
                Visitors(server.port, load, peak).come_and_go()
                run.busy_seconds += time.monotonic() - start
                run.cpu_seconds += cpu_of(server.pid) - cpu
                run.requests += load.visitors * load.requests
                live = stats_of(server.pid).bytes["live"]
                run.live.append((time.monotonic() - began, live))
                time.sleep(load.pause_seconds)
            time.sleep(load.idle_seconds)
            sampler.stop()
            sampler.take()
            run.last = stats_of(server.pid)
            run.live.append((time.monotonic() - began, run.last.bytes["live"]))
            look(server.pid)
        finally:
            sampler.stop()
    return run
