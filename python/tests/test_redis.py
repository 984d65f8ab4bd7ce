"""The Redis client against a server that answers what the test wants: no Redis is needed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from strata import redis
from strata.redis import Client, Pipeline, RedisError


class Server:
    """Answers each connection's n-th request, a line, with its n-th reply; then hangs up."""

    def __init__(self, *replies: bytes) -> None:
        self._replies = replies
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.seen: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            for reply in self._replies:
                if not (request := stream.readline()):
                    return
                self.seen.append(request)
                connection.sendall(reply)


def pipelines(count: int, replies: bytes) -> Iterator[Pipeline]:
    for number in range(count):
        yield Pipeline(b"%d\n" % number, replies, 3)


def test_pipelines_go_out_in_turn_and_each_is_timed() -> None:
    server = Server(*[b"+OK\r\n"] * 3)
    told: list[int] = []
    with Client(server.port, 2) as client:
        seen = client.run(pipelines(5, b"+OK\r\n"), told.append)
    assert sorted(server.seen) == [b"%d\n" % number for number in range(5)]
    assert (seen.requests, sum(told), len(seen.latencies)) == (15, 15, 5)
    assert 0 < seen.percentile(0) <= seen.percentile(50) <= seen.percentile(99) <= seen.seconds
    assert seen.rate == 15 / seen.seconds


def test_percentiles_are_by_nearest_rank() -> None:
    seen = redis.Measured(100, 1.0, tuple(float(n) for n in range(100, 0, -1)))
    assert (seen.percentile(0), seen.percentile(50), seen.percentile(99)) == (1, 51, 100)


def test_nothing_to_send_is_nothing_measured() -> None:
    server = Server()
    with Client(server.port, 2) as client:
        assert client.run([]).requests == 0


def test_replies_longer_than_the_buffer_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "RECEIVE_BYTES", 16)
    long = redis.bulk(bytes(range(256)) * 100)
    server = Server(long, long[:-3] + b"x\r\n")
    with Client(server.port, 1) as client:
        assert client.run(pipelines(1, long)).requests == 3
        with pytest.raises(RedisError, match="other data"):
            client.run(pipelines(1, long))


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"-ERR no\r\n", "redis-server answered: -ERR no"),
        (b"+O", "closed the connection"),
        (b"+NO\r\n", "other data"),
    ],
)
def test_any_other_answer_is_an_error(reply: bytes, error: str) -> None:
    server = Server(reply)
    with Client(server.port, 1) as client, pytest.raises(RedisError, match=error):
        client.run(pipelines(1, b"+OK\r\n"))


def test_commands_take_lines_and_bulk_strings() -> None:
    server = Server(b"$6\r\na:1\r\nb\r\n", b"", b"", b"", b"", b"+PONG\r\n")
    with redis.connect(server.port) as connection:
        assert redis.info(connection, "x") == {"a": "1"}  # its other four lines get no answer
        assert redis.command(connection, "PING") == b"+PONG"
    for reply, error in ((b"-ERR x\r\n", "-ERR x"), (b"", "closed")):
        with (
            redis.connect(Server(reply).port) as connection,
            pytest.raises(RedisError, match=error),
        ):
            redis.command(connection, "y")


def test_what_travels() -> None:
    key, value = redis.bulk(b"k"), redis.bulk(b"value")
    stored = redis.set_pipeline([key] * 2, [value] * 2)
    assert stored.requests == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n" * 2
    assert stored.replies == b"+OK\r\n+OK\r\n"
    read = redis.get_pipeline([key] * 2, [value] * 2)
    assert read.requests == b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" * 2
    assert read.replies == value * 2
    assert redis.delete_pipeline([key]).requests == b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"
    assert redis.delete_pipeline([key] * 3).replies == b":1\r\n" * 3
