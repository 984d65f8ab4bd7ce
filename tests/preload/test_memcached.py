"""memcached on the library: its data against a model; it may only forget once it is full."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from blackbox import Lab, connect, free_port, need


class Client:
    """The text protocol over one socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._input = link.makefile("rb")

    def close(self) -> None:
        self._input.close()
        self._link.close()

    def _line(self) -> bytes:
        line = self._input.readline()
        assert line.endswith(b"\r\n"), "memcached closed the connection"
        return line[:-2]

    def command(self, text: str, data: bytes | None = None) -> bytes:
        body = b"" if data is None else data + b"\r\n"
        self._link.sendall(text.encode() + b"\r\n" + body)
        return self._line()

    def set(self, key: str, data: bytes) -> None:
        assert self.command(f"set {key} 0 0 {len(data)}", data) == b"STORED"

    def get(self, key: str) -> bytes | None:
        head = self.command(f"get {key}")
        if head == b"END":
            return None
        length = int(head.split()[3])
        data = self._input.read(length + 2)[:-2]
        assert self._line() == b"END"
        return data

    def stats(self) -> dict[str, int]:
        found = {}
        line = self.command("stats")
        while line != b"END":
            _, name, value = line.decode().split(" ", 2)
            if value.isdigit():
                found[name] = int(value)
            line = self._line()
        return found


@contextlib.contextmanager
def memcached(lab: Lab, folder: Path, *options: str) -> Iterator[list[Client]]:
    port = free_port()
    log = folder / "memcached.log"
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    where = ["-l", "127.0.0.1", "-p", str(port), "-U", "0"]
    server = lab.start(
        need("memcached"),
        *where,
        *user,
        *options,
        stdout=log.open("w"),
        stderr=subprocess.STDOUT,
    )
    with server as process:
        clients = [Client(connect(port, process)) for _ in range(8)]
        lab.assert_loaded(process.pid)
        try:
            yield clients
            assert process.poll() is None, log.read_text()
        finally:
            for client in clients:
                client.close()
    assert log.read_text() == ""


def test_data_matches_a_model(lab: Lab, tmp_path: Path) -> None:
    draw = random.Random(5)
    model: dict[str, bytes] = {}
    with memcached(lab, tmp_path, "-m", "256", "-t", "4", "-I", "2m") as clients:
        for step in range(20_000):
            client = clients[step % len(clients)]
            key = f"key{draw.randrange(4000)}"
            choice = draw.random()
            if choice < 0.5:
                size = draw.choice((10, 100, 1000, 5000, 20_000))
                model[key] = draw.randbytes(draw.randrange(size))
                client.set(key, model[key])
            elif choice < 0.65:
                expected = b"DELETED" if model.pop(key, None) is not None else b"NOT_FOUND"
                assert client.command(f"delete {key}") == expected
            elif choice < 0.75 and key in model:
                extra = draw.randbytes(50)
                model[key] += extra
                assert client.command(f"append {key} 0 0 {len(extra)}", extra) == b"STORED"
            else:
                assert client.get(key) == model.get(key)
        for number in range(20):
            model[f"big{number}"] = draw.randbytes(draw.randrange(500_000, 1_500_000))
            clients[number % 8].set(f"big{number}", model[f"big{number}"])
        for key, data in model.items():
            assert clients[0].get(key) == data, key
        stats = clients[0].stats()
        assert stats["evictions"] == 0 and stats["curr_items"] == len(model)


def test_when_full_it_forgets_but_never_lies(lab: Lab, tmp_path: Path) -> None:
    draw = random.Random(6)
    data = draw.randbytes(60_000)
    with memcached(lab, tmp_path, "-m", "64", "-t", "3") as clients:
        sizes = {f"key{i}": draw.randrange(200, 60_000) for i in range(4000)}
        for number, (key, size) in enumerate(sizes.items()):
            clients[number % 8].set(key, data[:size])
        kept = 0
        for key, size in sizes.items():
            found = clients[1].get(key)
            assert found is None or found == data[:size], key
            kept += found is not None
        assert clients[0].stats()["evictions"] > 0
        assert kept > 500
