"""The load generator: pre-built requests over pipelined sockets, every reply compared.

Each connection has one pipeline of requests in flight. A pipeline's latency runs from just before
its first byte is sent until its last reply has been read, so with two connections it includes
waiting for the other pipeline. The next requests are built while the server works.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata.demo.plan import Phase, Plan
from strata.errors import StrataError

TIMEOUT_SECONDS = 60
PROGRESS_EVERY = 32  # pipelines
RECEIVE_BYTES = 1 << 20
HEADS = {
    "SET": b"*3\r\n$3\r\nSET\r\n",
    "DEL": b"*2\r\n$3\r\nDEL\r\n",
    "GET": b"*2\r\n$3\r\nGET\r\n",
}


@dataclass(frozen=True)
class Measured:
    """One phase as the client saw it."""

    requests: int
    seconds: float
    latencies: NDArray[np.float64]  # seconds, one a pipeline

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, which: float) -> float:
        return float(np.percentile(self.latencies, which))


class Client:
    """Knows every key and value as the bytes that travel, so that sending one is a copy."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        random = np.random.default_rng(plan.seed)
        pool = random.bytes(2 * plan.largest)
        self._keys = [b"$11\r\nkey:%07d\r\n" % number for number in range(plan.keys)]
        # value by size: a bulk string, as a SET sends it and a GET returns it
        self._values = [
            b"$%d\r\n%b\r\n" % (size, pool[size % 997 :][:size]) for size in range(plan.largest + 1)
        ]
        self._buffer = bytearray(RECEIVE_BYTES)

    def _build(self, phase: Phase, start: int) -> tuple[bytes, bytes, int]:
        """The requests of one pipeline, the replies they must get, and their number."""
        chunk = slice(start, start + self._plan.pipeline)
        keys = [self._keys[number] for number in phase.keys[chunk].tolist()]
        head = HEADS[phase.operation]
        if phase.operation == "DEL":
            return head + head.join(keys), b":1\r\n" * len(keys), len(keys)
        values = [self._values[size] for size in phase.sizes[chunk].tolist()]
        if phase.operation == "GET":
            return head + head.join(keys), b"".join(values), len(keys)
        parts = [head] * (3 * len(keys))
        parts[1::3] = keys
        parts[2::3] = values
        return b"".join(parts), b"+OK\r\n" * len(keys), len(keys)

    def _receive(self, connection: socket.socket, expected: bytes) -> None:
        """Reads one pipeline's replies; anything but the expected bytes ends the demo."""
        received = 0
        view = memoryview(self._buffer)
        while received < len(expected):
            count = connection.recv_into(view[received : len(expected)])
            if count == 0:
                raise StrataError("redis-server closed the connection", 1)
            if received == 0 and self._buffer[0] == ord("-"):
                text = bytes(self._buffer[:count]).split(b"\r\n")[0].decode(errors="replace")
                raise StrataError(f"redis-server answered: {text}", 1)
            received += count
        if not self._buffer.startswith(expected):  # a memcmp; comparing views goes byte by byte
            raise StrataError("redis-server returned other data than was stored", 1)

    def run(self, port: int, phase: Phase, progress: Callable[[int], None]) -> Measured:
        """Sends all requests of a phase and times them."""
        total = len(phase.keys)
        starts = range(0, total, self._plan.pipeline)
        latencies = np.empty(len(starts))
        connections = [
            socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
            for _ in range(min(self._plan.connections, len(starts)))
        ]
        try:
            for connection in connections:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seconds = self._exchange(phase, connections, starts, latencies, progress)
        except TimeoutError as error:
            raise StrataError(f"redis-server gave no reply for {TIMEOUT_SECONDS} s", 1) from error
        except OSError as error:
            raise StrataError(f"the connection to redis-server broke: {error}", 1) from error
        finally:
            for connection in connections:
                connection.close()
        return Measured(total, seconds, latencies)

    def _exchange(
        self,
        phase: Phase,
        connections: list[socket.socket],
        starts: range,
        latencies: NDArray[np.float64],
        progress: Callable[[int], None],
    ) -> float:
        lanes = len(connections)
        sent_at = [0.0] * lanes
        waiting = [b""] * lanes
        built = [self._build(phase, starts[lane]) for lane in range(lanes)]
        began = clock = time.perf_counter()
        unreported = 0
        for turn in range(len(starts) + lanes):
            lane = turn % lanes
            if turn >= lanes:
                self._receive(connections[lane], waiting[lane])
                clock = time.perf_counter()
                latencies[turn - lanes] = clock - sent_at[lane]
            if turn < len(starts):
                requests, waiting[lane], count = built[lane]
                sent_at[lane] = time.perf_counter()
                connections[lane].sendall(requests)
                unreported += count
                if turn + lanes < len(starts):
                    built[lane] = self._build(phase, starts[turn + lanes])
            if turn % PROGRESS_EVERY == 0:
                progress(unreported)
                unreported = 0
        progress(unreported)
        return clock - began
