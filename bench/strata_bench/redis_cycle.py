"""The day of a Redis: filled, most keys deleted at random, at rest, refilled, read. What each phase
costs the server's own thread, how much memory rests, and what comes back on hugepages."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata_bench.allocators import Allocator
from strata_bench.redis_load import RedisError, kib_fields, server

SMALLEST, DOUBLINGS = 64, 6  # 64 B to 4 KiB, as many keys in each doubling
PIPELINE = 64
LANES = 2
DELETED = 0.7
REST_SECONDS = 15.0
READ_SECONDS = 15.0


@dataclass(frozen=True)
class Phase:
    requests: int
    cpu: float  # seconds of the server's thread
    others: float  # of all others
    p99: float  # seconds, of a pipeline

    @property
    def rate(self) -> float:
        return self.requests / max(self.cpu, 1e-3)


class Load:
    """Keys with values of fixed sizes, and the order in which each phase asks for them."""

    def __init__(self, keys: int) -> None:
        rng = random.Random(7)
        self.sizes = [int(SMALLEST * 2 ** rng.uniform(0, DOUBLINGS)) for _ in range(keys)]
        self.all = rng.sample(range(keys), keys)
        self.deleted = rng.sample(range(keys), int(keys * DELETED))
        self.refilled = rng.sample(self.deleted, len(self.deleted))
        # Letters: nothing in it looks like an error's first byte.
        self._pattern = bytes(rng.choices(range(97, 123), k=2 * (SMALLEST << DOUBLINGS)))

    def pieces(self, verb: str, keys: list[int]) -> Iterator[tuple[bytes, int, int]]:
        """Pipelines of requests, with the bytes of their answers and their number."""
        for at in range(0, len(keys), PIPELINE):
            chunk = keys[at : at + PIPELINE]
            requests = b"".join(self._request(verb, key) for key in chunk)
            yield requests, self._answer(verb, chunk), len(chunk)

    def _request(self, verb: str, key: int) -> bytes:
        if verb != "SET":
            return b"*2\r\n$3\r\n%b\r\n$11\r\nkey:%07d\r\n" % (verb.encode(), key)
        size = self.sizes[key]
        value = self._pattern[key % 997 :][:size]
        return b"*3\r\n$3\r\nSET\r\n$11\r\nkey:%07d\r\n$%d\r\n%b\r\n" % (key, size, value)

    def _answer(self, verb: str, chunk: list[int]) -> int:
        if verb == "SET":
            return len(b"+OK\r\n") * len(chunk)
        if verb == "DEL":
            return len(b":1\r\n") * len(chunk)
        return sum(len(b"$%d\r\n\r\n" % self.sizes[key]) + self.sizes[key] for key in chunk)


def _cpu(pid: int) -> tuple[float, float]:
    """Seconds of the main thread, and of all others."""
    main = others = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0]) * 1e-9
        if task.name == str(pid):
            main = spent
        else:
            others += spent
    return main, others


def _take(connection: socket.socket, count: int) -> None:
    while count > 0:
        piece = connection.recv(min(count, 1 << 20))
        if not piece or piece.startswith(b"-"):
            raise RedisError(piece[:80].decode(errors="replace") or "connection closed")
        count -= len(piece)


def _run(
    pid: int, lanes: list[socket.socket], load: Load, verb: str, keys: list[int], least: float = 0
) -> Phase:
    """All keys once, and on from the first until `least` seconds have passed."""
    waiting: list[tuple[int, float]] = [(0, 0.0)] * len(lanes)
    took: list[float] = []
    before = _cpu(pid)
    requests = turn = 0
    until = time.monotonic() + least

    def settle(lane: int) -> None:
        count, since = waiting[lane]
        if count:
            _take(lanes[lane], count)
            took.append(time.monotonic() - since)
        waiting[lane] = (0, 0.0)

    while True:
        for piece, answer, count in load.pieces(verb, keys):
            lane = turn % len(lanes)
            settle(lane)
            lanes[lane].sendall(piece)
            waiting[lane] = (answer, time.monotonic())
            requests += count
            turn += 1
            if least and time.monotonic() > until:
                break
        if time.monotonic() >= until:
            break
    for lane in range(len(lanes)):
        settle((turn + lane) % len(lanes))
    after = _cpu(pid)
    p99 = sorted(took)[len(took) * 99 // 100]
    return Phase(requests, after[0] - before[0], after[1] - before[1], p99)


def measure(allocator: Allocator, keys: int) -> dict[str, str]:
    """One cycle of one server."""
    load = Load(keys)
    with server(allocator, {}, ("--disable-thp", "no")) as (process, _, port):
        lanes = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(LANES)]
        proc = Path("/proc") / str(process.pid)
        phases: dict[str, Phase] = {}
        try:
            for lane in lanes:
                lane.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            phases["fill"] = _run(process.pid, lanes, load, "SET", load.all)
            phases["delete"] = _run(process.pid, lanes, load, "DEL", load.deleted)
            time.sleep(REST_SECONDS)
            rested = kib_fields(proc / "smaps_rollup")
            phases["refill"] = _run(process.pid, lanes, load, "SET", load.refilled)
            phases["read"] = _run(process.pid, lanes, load, "GET", load.all, READ_SECONDS)
            ended = kib_fields(proc / "smaps_rollup")
        finally:
            for lane in lanes:
                lane.close()
    fields = {
        "program": "cycle",
        "keys": str(keys),
        "rested_rss_kib": str(rested["Rss"]),
        "rss_kib": str(ended["Rss"]),
        "coverage": f"{ended['AnonHugePages'] / max(1, ended['Anonymous']):.4f}",
        "others_cpu_s": f"{sum(p.others for p in phases.values()):.3f}",
    }
    for name, phase in phases.items():
        fields[f"{name}_per_cpu_s"] = f"{phase.rate:.0f}"
        fields[f"{name}_p99_us"] = f"{phase.p99 * 1e6:.0f}"
    return fields
