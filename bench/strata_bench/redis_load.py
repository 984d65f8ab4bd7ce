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
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from strata.procfs import cpu_times, spent_since
from strata.redis import Client, Pipeline, RedisError, bulk, command, connect, set_pipeline

from strata_bench.allocators import Allocator

LOW, HIGH = 100, 3000
PIPELINE = 64
LANES = 4  # pipelines in flight, so that the server always has one to work on
START_TIMEOUT = 20.0


@functools.cache
def requests(keys: int) -> list[Pipeline]:
    """SET commands for `keys` keys with values of 100 B to 3 KB, PIPELINE in each piece."""
    rng = random.Random(2024)
    pattern = bytes(rng.randrange(33, 127) for _ in range(HIGH * 2))
    pieces: list[Pipeline] = []
    for first in range(0, keys, PIPELINE):
        names: list[bytes] = []
        values: list[bytes] = []
        for key in range(first, min(first + PIPELINE, keys)):
            size = rng.randint(LOW, HIGH)
            offset = rng.randrange(HIGH)
            names.append(bulk(b"key:%010d" % key))
            values.append(bulk(pattern[offset : offset + size]))
        pieces.append(set_pipeline(names, values))
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
            return connect(port)
        time.sleep(0.02)
    raise RedisError("redis-server did not answer")


def kib_fields(path: Path) -> dict[str, int]:
    """The `Name:  number kB` lines of a file in /proc."""
    found: dict[str, int] = {}
    for line in path.read_text().splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "kB":
            found[parts[0].rstrip(":")] = int(parts[1])
    return found


@contextlib.contextmanager
def started(
    environment: Mapping[str, str], options: tuple[str, ...] = (), named: str = "redis-server"
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket, int]]:
    """A redis-server in this environment, a connection to it and its port."""
    program = shutil.which(named)
    if program is None:
        raise RedisError(f"{named} is not installed")
    port = _free_port()
    process = subprocess.Popen(
        [
            *(program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""),
            *("--appendonly", "no", "--loglevel", "warning", "--dir", "/tmp"),
            *options,
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with _connect(port, process) as connection:
            yield process, connection, port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def server(
    allocator: Allocator, settings: dict[str, str], options: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket, int]]:
    """A redis-server on the allocator, a connection to it and its port."""
    environment = allocator.environment(force_preload=True) | settings
    with started(environment, options) as (process, connection, port):
        library = str(allocator.library.resolve()) if allocator.library else ""
        if library not in Path(f"/proc/{process.pid}/maps").read_text():
            raise RedisError("the library is not in the server")
        yield process, connection, port


def measure(allocator: Allocator, keys: int) -> dict[str, str]:
    """Starts a server on the allocator, fills it and reads its costs."""
    pieces = requests(keys)
    with server(allocator, {}) as (process, connection, port), Client(port, LANES) as client:
        before = cpu_times(process.pid)
        filled = client.run(pieces)
        cpu = spent_since(before, process.pid)
        proc = Path("/proc") / str(process.pid)
        status = kib_fields(proc / "status")
        rollup = kib_fields(proc / "smaps_rollup")
        if command(connection, "DBSIZE") != b":%d" % keys:
            raise RedisError("keys are missing after the fill")
    return {
        "program": "redis",
        "keys": str(keys),
        "requests_per_cpu_s": f"{keys / cpu:.0f}",
        "requests_per_s": f"{filled.rate:.0f}",
        "cpu_s": f"{cpu:.4f}",
        "seconds": f"{filled.seconds:.4f}",
        "coverage": f"{rollup['AnonHugePages'] / max(1, rollup['Anonymous']):.4f}",
        "rss_kib": str(status["VmRSS"]),
        "hwm_kib": str(status["VmHWM"]),
    }
