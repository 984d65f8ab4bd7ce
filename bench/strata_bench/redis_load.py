"""Fill of Debian's redis-server over pipelined sockets, and what the server spent on it.

The figure is requests a second of the server's CPU time, so a slow client does not count. The
requests are made once and sent again to each allocator's server.
"""

from __future__ import annotations

import contextlib
import functools
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from strata_bench.allocators import Allocator

LOW, HIGH = 100, 3000
PIPELINE = 64
START_TIMEOUT = 20.0


class RedisError(Exception):
    """The server did not start, died, or answered something else than it should."""


@functools.cache
def requests(keys: int) -> list[bytes]:
    """SET commands for `keys` keys with values of 100 B to 3 KB, PIPELINE in each piece."""
    rng = random.Random(2024)
    pattern = bytes(rng.randrange(33, 127) for _ in range(HIGH * 2))
    pieces: list[bytes] = []
    for first in range(0, keys, PIPELINE):
        parts: list[bytes] = []
        for key in range(first, min(first + PIPELINE, keys)):
            size = rng.randint(LOW, HIGH)
            offset = rng.randrange(HIGH)
            name = b"key:%010d" % key
            parts.append(
                b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"
                % (len(name), name, size, pattern[offset : offset + size])
            )
        pieces.append(b"".join(parts))
    return pieces


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _connect(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RedisError(f"redis-server ended with {process.returncode} while starting")
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        time.sleep(0.02)
    raise RedisError("redis-server did not answer")


def _command(connection: socket.socket, *words: str) -> bytes:
    """One command with a one-line answer."""
    text = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
    connection.sendall(text.encode())
    answer = b""
    while not answer.endswith(b"\r\n"):
        piece = connection.recv(4096)
        if not piece:
            raise RedisError("the server closed the connection")
        answer += piece
    return answer


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, in the scheduler's nanoseconds."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total * 1e-9


def kib_fields(path: Path) -> dict[str, int]:
    """The `Name:  number kB` lines of a file in /proc."""
    found: dict[str, int] = {}
    for line in path.read_text().splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "kB":
            found[parts[0].rstrip(":")] = int(parts[1])
    return found


def _fill(connection: socket.socket, keys: int) -> None:
    """Sends everything while a second thread takes the answers, so neither side waits."""
    expected = keys * len(b"+OK\r\n")
    problem: list[str] = []

    def take() -> None:
        left = expected
        try:
            while left > 0:
                piece = connection.recv(1 << 16)
                if not piece or b"-" in piece:
                    problem.append(piece[:80].decode(errors="replace") or "connection closed")
                    return
                left -= len(piece)
        except OSError as error:
            problem.append(str(error))

    taker = threading.Thread(target=take)
    taker.start()
    try:
        for piece in requests(keys):
            if problem:
                break
            connection.sendall(piece)
    except OSError as error:
        problem.append(str(error))
    taker.join()
    if problem:
        raise RedisError(f"fill failed: {problem[0]}")


def info(connection: socket.socket, section: str) -> dict[str, str]:
    """The fields of one section of INFO."""
    connection.sendall(f"INFO {section}\r\n".encode())
    with connection.makefile("rb") as stream:
        head = stream.readline()
        if not head.startswith(b"$"):
            raise RedisError(f"INFO: {head[:80].decode(errors='replace') or 'connection closed'}")
        text = stream.read(int(head[1:]) + 2)[:-2].decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


@contextlib.contextmanager
def server(
    allocator: Allocator, settings: dict[str, str], options: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket, int]]:
    """A redis-server on the allocator, a connection to it and its port."""
    program = shutil.which("redis-server")
    if program is None:
        raise RedisError("redis-server is not installed")
    port = _free_port()
    process = subprocess.Popen(
        [
            *(program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""),
            *("--appendonly", "no", "--loglevel", "warning", "--dir", "/tmp"),
            *options,
        ],
        env=allocator.environment(force_preload=True) | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with _connect(port, process) as connection:
            if (
                allocator.library
                and str(allocator.library.resolve())
                not in Path(f"/proc/{process.pid}/maps").read_text()
            ):
                raise RedisError("the library is not in the server")
            yield process, connection, port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(allocator: Allocator, keys: int) -> dict[str, str]:
    """Starts a server on the allocator, fills it and reads its costs."""
    requests(keys)
    with server(allocator, {}) as (process, connection, _):
        cpu_before = cpu_seconds(process.pid)
        started = time.monotonic()
        _fill(connection, keys)
        wall = time.monotonic() - started
        cpu = cpu_seconds(process.pid) - cpu_before
        proc = Path("/proc") / str(process.pid)
        status = kib_fields(proc / "status")
        rollup = kib_fields(proc / "smaps_rollup")
        if _command(connection, "DBSIZE") != b":%d\r\n" % keys:
            raise RedisError("keys are missing after the fill")
    return {
        "program": "redis",
        "keys": str(keys),
        "requests_per_cpu_s": f"{keys / cpu:.0f}",
        "requests_per_s": f"{keys / wall:.0f}",
        "cpu_s": f"{cpu:.4f}",
        "seconds": f"{wall:.4f}",
        "coverage": f"{rollup['AnonHugePages'] / max(1, rollup['Anonymous']):.4f}",
        "rss_kib": str(status["VmRSS"]),
        "hwm_kib": str(status["VmHWM"]),
    }
