"""The one Redis client: pipelines of requests made beforehand, every reply compared, each timed.

The demo and the benchmarks load redis-server through it. Each connection has one pipeline in
flight; a pipeline's latency runs from just before its first byte is sent until its last reply has
been read, so with several connections it includes waiting for the others. The next pipeline is
built while the server works.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from strata.errors import StrataError

TIMEOUT_SECONDS = 60.0
PROGRESS_EVERY = 32  # pipelines
RECEIVE_BYTES = 1 << 20


class RedisError(StrataError):
    """The server did not start, died, or answered something else than it should."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 1)


@dataclass(frozen=True)
class Pipeline:
    """Requests that are sent at once, and exactly what must come back."""

    requests: bytes
    replies: bytes
    count: int


@dataclass(frozen=True)
class Measured:
    """What the client saw of a run of pipelines."""

    requests: int
    seconds: float
    latencies: tuple[float, ...]  # seconds, one a pipeline

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, which: float) -> float:
        """By nearest rank."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * which / 100))]


def bulk(data: bytes) -> bytes:
    """A string as it travels, in either direction."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def set_pipeline(keys: Sequence[bytes], values: Sequence[bytes]) -> Pipeline:
    """Keys and values are bulk strings, in all three."""
    parts = [b"*3\r\n$3\r\nSET\r\n"] * (3 * len(keys))
    parts[1::3] = keys
    parts[2::3] = values
    return Pipeline(b"".join(parts), b"+OK\r\n" * len(keys), len(keys))


def get_pipeline(keys: Sequence[bytes], values: Sequence[bytes]) -> Pipeline:
    head = b"*2\r\n$3\r\nGET\r\n"
    return Pipeline(head + head.join(keys), b"".join(values), len(keys))


def delete_pipeline(keys: Sequence[bytes]) -> Pipeline:
    head = b"*2\r\n$3\r\nDEL\r\n"
    return Pipeline(head + head.join(keys), b":1\r\n" * len(keys), len(keys))


def connect(port: int, timeout: float = TIMEOUT_SECONDS) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def command(connection: socket.socket, *words: str) -> bytes:
    """One request and its reply: a line, or the content of a bulk string."""
    encoded = [word.encode() for word in words]
    connection.sendall(b"*%d\r\n" % len(encoded) + b"".join(bulk(word) for word in encoded))
    with connection.makefile("rb") as stream:
        head = stream.readline()
        if not head.endswith(b"\r\n"):
            raise RedisError("redis-server closed the connection")
        if head.startswith(b"-"):
            raise RedisError(f"redis-server answered: {head.strip().decode(errors='replace')}")
        if not head.startswith(b"$"):
            return head.rstrip()
        return stream.read(int(head[1:]) + 2)[:-2]


def info(connection: socket.socket, section: str) -> dict[str, str]:
    """The fields of one section of INFO."""
    text = command(connection, "INFO", section).decode(errors="replace")
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Client:
    """Loads one server over a few connections, which stay open between the phases of a load."""

    def __init__(self, port: int, connections: int, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._lanes = [connect(port, timeout) for _ in range(connections)]
        self._buffer = bytearray(RECEIVE_BYTES)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes:
            lane.close()

    def run(
        self, pipelines: Iterable[Pipeline], progress: Callable[[int], None] | None = None
    ) -> Measured:
        """Sends all pipelines in turn, one in flight on each connection."""
        try:
            return self._exchange(iter(pipelines), progress or (lambda _: None))
        except TimeoutError as error:
            raise RedisError(f"redis-server gave no reply for {self._timeout:g} s") from error
        except OSError as error:
            raise RedisError(f"the connection to redis-server broke: {error}") from error

    def _exchange(self, pipelines: Iterator[Pipeline], progress: Callable[[int], None]) -> Measured:
        lanes = self._lanes
        waiting: list[tuple[Pipeline, float] | None] = [None] * len(lanes)
        latencies: list[float] = []
        requests = unreported = 0
        built = list(itertools.islice(pipelines, len(lanes)))  # in turn with the lanes
        began = clock = time.perf_counter()
        for turn in itertools.count():
            lane = turn % len(lanes)
            if (sent := waiting[lane]) is not None:
                self._receive(lanes[lane], sent[0].replies)
                clock = time.perf_counter()
                latencies.append(clock - sent[1])
                waiting[lane] = None
            if built:
                pipeline = built.pop(0)
                waiting[lane] = (pipeline, time.perf_counter())
                lanes[lane].sendall(pipeline.requests)
                requests += pipeline.count
                unreported += pipeline.count
                built.extend(itertools.islice(pipelines, 1))
            elif not any(waiting):
                break
            if turn % PROGRESS_EVERY == 0:
                progress(unreported)
                unreported = 0
        progress(unreported)
        return Measured(requests, clock - began, tuple(latencies))

    def _receive(self, connection: socket.socket, expected: bytes) -> None:
        """Reads one pipeline's replies; anything but the expected bytes is an error."""
        if len(expected) > len(self._buffer):
            self._buffer = bytearray(len(expected))
        received = 0
        view = memoryview(self._buffer)
        while received < len(expected):
            count = connection.recv_into(view[received : len(expected)])
            if count == 0:
                raise RedisError("redis-server closed the connection")
            if received == 0 and self._buffer[0] == ord("-"):
                text = bytes(self._buffer[:count])
                if b"\r\n" not in text:  # as much as was expected, and it is longer
                    text += connection.recv(512)
                line = text.split(b"\r\n")[0].decode(errors="replace")
                raise RedisError(f"redis-server answered: {line}")
            received += count
        if not self._buffer.startswith(expected):  # a memcmp; comparing views goes byte by byte
            raise RedisError("redis-server returned other data than was stored")
