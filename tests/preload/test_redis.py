"""redis-server on the library: its data against a model, with expiry, big values and BGSAVE."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blackbox import Lab, connect, free_port, need, wait_until

Reply = Any
KEYS = 30_000


class Client:
    """A pipelining Redis client over one socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._input = link.makefile("rb")

    def close(self) -> None:
        self._input.close()
        self._link.close()

    def __call__(self, *words: bytes | str | int) -> Reply:
        return self.pipeline([words])[0]

    def pipeline(self, commands: list[tuple[bytes | str | int, ...]]) -> list[Reply]:
        """Sends the commands in portions small enough that neither side blocks on the other."""
        replies: list[Reply] = []
        for first in range(0, len(commands), 100):
            portion = commands[first : first + 100]
            self._link.sendall(b"".join(self._encode(words) for words in portion))
            replies += [self._read() for _ in portion]
        return replies

    @staticmethod
    def _encode(words: tuple[bytes | str | int, ...]) -> bytes:
        raw = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(raw)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in raw]
        return b"".join(parts)

    def _read(self) -> Reply:
        line = self._input.readline()
        assert line.endswith(b"\r\n"), "redis closed the connection"
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise AssertionError(rest.decode())
        length = int(rest)
        if length < 0:
            return None
        if kind == b"*":
            return [self._read() for _ in range(length)]
        data = self._input.read(length + 2)
        assert len(data) == length + 2
        return data[:-2]


@contextlib.contextmanager
def redis(
    lab: Lab, folder: Path, env: dict[str, str] | None = None
) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    port = free_port()
    options = f"--port {port} --bind 127.0.0.1 --appendonly no --enable-debug-command yes"
    log = folder / "redis.log"
    server = lab.start(
        need("redis-server"),
        *options.split(),
        "--save",
        "",
        "--dir",
        folder,
        env=env,
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
    )
    with server as process:
        client = Client(connect(port, process))
        lab.assert_loaded(process.pid)
        try:
            yield client, process
            assert process.poll() is None, log.read_text()
        finally:
            client.close()
    text = log.read_text()
    assert "strata:" not in text, text
    assert "CRASHED" not in text and "cannot be preloaded" not in text, text


class Model:
    """What the server must hold, changed by the same random commands."""

    def __init__(self, client: Client, seed: int) -> None:
        self.strings: dict[bytes, bytes] = {}
        self.hashes: dict[bytes, dict[bytes, bytes]] = {}
        self.lists: dict[bytes, list[bytes]] = {}
        self.sets: dict[bytes, set[bytes]] = {}
        self.scores: dict[bytes, dict[bytes, int]] = {}
        self._client = client
        self._random = random.Random(seed)

    def _value(self) -> bytes:
        size = self._random.choice((8, 60, 64, 200, 1000, 4000))
        return self._random.randbytes(self._random.randrange(size))

    def change(self, count: int) -> None:
        draw = self._random
        commands: list[tuple[bytes | str | int, ...]] = []
        for _ in range(count):
            number = draw.randrange(KEYS)
            choice = draw.random()
            key = b"s%d" % number
            if choice < 0.45:
                value = self._value()
                self.strings[key] = value
                commands.append(("SET", key, value))
            elif choice < 0.6:
                self.strings.pop(key, None)
                commands.append(("DEL", key))
            elif choice < 0.65:
                value = self._value()
                self.strings[key] = self.strings.get(key, b"") + value
                commands.append(("APPEND", key, value))
            elif choice < 0.78:
                key, field, value = (
                    b"h%d" % (number % 300),
                    b"f%d" % draw.randrange(400),
                    self._value(),
                )
                self.hashes.setdefault(key, {})[field] = value
                commands.append(("HSET", key, field, value))
            elif choice < 0.86:
                key, value = b"l%d" % (number % 100), self._value()
                self.lists.setdefault(key, []).append(value)
                commands.append(("RPUSH", key, value))
            elif choice < 0.93:
                key, value = b"t%d" % (number % 100), b"%d" % draw.randrange(5000)
                self.sets.setdefault(key, set()).add(value)
                commands.append(("SADD", key, value))
            else:
                key, field = b"z%d" % (number % 50), b"m%d" % draw.randrange(1000)
                self.scores.setdefault(key, {})[field] = number
                commands.append(("ZADD", key, number, field))
        self._client.pipeline(commands)

    def check(self) -> None:
        ask = self._client
        assert ask("DBSIZE") == (
            len(self.strings)
            + len(self.hashes)
            + len(self.lists)
            + len(self.sets)
            + len(self.scores)
        )
        keys = list(self.strings)
        assert ask.pipeline([("GET", key) for key in keys]) == list(self.strings.values())
        for key, fields in self.hashes.items():
            flat = ask("HGETALL", key)
            assert dict(zip(flat[::2], flat[1::2], strict=True)) == fields, key
        for key, values in self.lists.items():
            assert ask("LRANGE", key, 0, -1) == values, key
        for key, members in self.sets.items():
            assert set(ask("SMEMBERS", key)) == members, key
        for key, scores in self.scores.items():
            flat = ask("ZRANGE", key, 0, -1, "WITHSCORES")
            found = {name: int(score) for name, score in zip(flat[::2], flat[1::2], strict=True)}
            assert found == scores, key


def test_data_matches_a_model(lab: Lab, tmp_path: Path) -> None:
    """Random commands, snapshots forked while they go on, and reloads of the whole database."""
    with redis(lab, tmp_path) as (ask, _):
        model = Model(ask, seed=1)
        model.change(40_000)
        model.check()
        before = ask("LASTSAVE")
        time.sleep(1.1)
        assert ask("BGSAVE").startswith(b"Background saving")
        model.change(30_000)
        deadline = time.monotonic() + 60
        while ask("LASTSAVE") == before:
            model.change(1000)
            assert time.monotonic() < deadline, "BGSAVE did not end"
        assert b"rdb_last_bgsave_status:ok" in ask("INFO", "persistence")
        model.check()
        assert ask("DEBUG", "RELOAD") == b"OK"
        model.check()
        model.change(20_000)
        model.check()
        assert ask("FLUSHALL") == b"OK"
        assert ask("DBSIZE") == 0


def test_expired_keys_go(lab: Lab, tmp_path: Path) -> None:
    with redis(lab, tmp_path) as (ask, _):
        ask.pipeline([("SET", f"short{i}", "x" * (i % 3000), "PX", 300) for i in range(20_000)])
        ask.pipeline([("SET", f"long{i}", "y" * (i % 300), "EX", 300) for i in range(5_000)])
        assert wait_until(lambda: ask("DBSIZE") <= 5_000), ask("DBSIZE")
        assert ask("GET", "short77") is None
        assert ask("GET", "long299") == b"y" * 299


def test_big_values(lab: Lab, tmp_path: Path) -> None:
    """Values of megabytes, grown by APPEND and SETRANGE, which is realloc of large blocks."""
    draw = random.Random(3)
    with redis(lab, tmp_path) as (ask, _):
        model: dict[str, bytes] = {}
        for step in range(60):
            key = f"big{step % 7}"
            data = draw.randbytes(draw.randrange(1, 3 << 20))
            if step % 3 == 0:
                assert ask("SET", key, data) == b"OK"
                model[key] = data
            else:
                model[key] = model.get(key, b"") + data
                assert ask("APPEND", key, data) == len(model[key])
        for key, data in model.items():
            assert ask("GET", key) == data, key
        assert ask("SETRANGE", "hole", 20 << 20, "end") == (20 << 20) + 3
        assert ask("GET", "hole") == b"\0" * (20 << 20) + b"end"


def figures(client: Client) -> dict[str, str]:
    text = client("INFO", "memory").decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def test_what_redis_asks_its_allocator(lab: Lab, tmp_path: Path) -> None:
    """INFO, MEMORY DOCTOR, PURGE and MALLOC-STATS ask jemalloc, which Debian's build links."""
    with redis(lab, tmp_path) as (client, _):
        client.pipeline([("SET", f"key:{i}", b"x" * 900) for i in range(160_000)])
        time.sleep(0.3)  # it asks ten times a second
        told = figures(client)
        allocated, active, resident, used = (
            int(told[name])
            for name in (
                "allocator_allocated", "allocator_active", "allocator_resident", "used_memory",
            )
        )  # fmt: skip
        assert used <= 1.02 * allocated <= 1.1 * used
        assert allocated <= active <= resident
        assert 0.9 < int(told["used_memory_rss"]) / resident < 1.2
        assert b"High process RSS overhead" not in client("MEMORY", "DOCTOR")
        client.pipeline([("DEL", f"key:{i}") for i in range(160_000)])
        assert client("MEMORY", "PURGE") == b"OK"
        # jemalloc's own printer ends the program where mallctl does not answer all it asks.
        assert b"  slack " in client("MEMORY", "MALLOC-STATS")
        time.sleep(0.3)
        after = figures(client)
        assert int(after["used_memory_rss"]) < 0.5 * int(told["used_memory_rss"])
