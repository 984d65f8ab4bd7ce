"""crestdb as its users run it: the names, a short measurement of each kind, the server, bad input.

The program is built by `make crestdb` or by the target of that name (build/bin/crestdb).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import blackbox
import pytest

CRESTDB = blackbox.ROOT / "build" / "bin" / "crestdb"
# The tests' own variables would be options that it does not know.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
NAMES = [
    "harris-table",
    "pugh-table",
    "chm-table",
    "coarse-skiplist",
    "fraser-skiplist",
    "herlihy-skiplist",
    "coarse-btree",
    "occ-btree",
    "masstree",
    "art",
]


@pytest.fixture(autouse=True, scope="module")
def built() -> None:
    if not CRESTDB.exists():
        blackbox.missing(f"{CRESTDB} is not built")


def crestdb(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CRESTDB, *words], env=CLEAN, capture_output=True, text=True, timeout=120, check=False
    )


def test_names_of_the_ten_structures() -> None:
    done = crestdb("structures")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == [*NAMES, ""]


@pytest.mark.parametrize("tidy", ["on", "off"])
@pytest.mark.parametrize("structure", NAMES)
def test_a_measurement(structure: str, tidy: str) -> None:
    words = f"bench --structure {structure} --ycsb A --keys 2000 --value 100 --seconds 0.2"
    done = crestdb(*words.split(), "--threads", "2", "--run-up", "0.2", "--tidy", tidy, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    seen = json.loads(done.stdout)
    assert (seen["structure"], seen["ycsb"], seen["tidy"]) == (structure, "A", tidy)
    assert seen["missing"] == 0
    assert seen["operations_per_second"] > 0
    assert 0 < seen["p50_us"] <= seen["p90_us"] <= seen["p99_us"]
    assert 0 < seen["page_utilization"] <= 100
    assert seen["resident_mib"] > 2000 * 100 / 2**20


@pytest.mark.parametrize("mix", ["B", "C", "D", "E", "F"])
def test_the_other_mixes(mix: str) -> None:
    words = f"bench --structure masstree --ycsb {mix} --keys 2000 --seconds 0.2 --run-up 0 --json"
    done = crestdb(*words.split())
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["operations_per_second"] > 0
    assert seen["missing"] == 0


@pytest.mark.parametrize("shape", ["uniform", "hotspot", "twitter", "twitter-flat", "cachelib"])
def test_the_other_distributions(shape: str) -> None:
    words = f"bench --distribution {shape} --keys 2000 --seconds 0.2 --run-up 0 --fresh --json"
    done = crestdb(*words.split())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["distribution"] == shape


@pytest.mark.parametrize(
    "words",
    [
        "",
        "nothing",
        "structures more",
        "bench --structure none",
        "bench --ycsb G",
        "bench --ycsb E --structure harris-table --tidy on",
        "bench --keys 0",
        "bench --keys many",
        "bench --value 1048577",
        "bench --theta -1",
        "bench --seconds nan",
        "bench --tidy maybe",
        "bench --distribution odd",
        "bench --reclaim soon",
        "bench --seconds",
        "bench --unheard 1",
        "bench --keys 5 --keys 6",
        "serve --structure none",
        "serve --port 70000",
        "serve --threads 0",
    ],
)
def test_bad_input_gets_one_line(words: str) -> None:
    done = crestdb(*(words.split() or ["--unheard"]))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("crestdb: ")
    assert done.stderr.count("\n") == 1


class Server:
    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [CRESTDB, "serve", "--port", "0", "--keys", "1000", *words],
            env=CLEAN,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:"), line
        self.port = int(line.rpartition(":")[2])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, text: bytes) -> bytes:
        """All it answers to this and `quit`."""
        with self.connect() as s:
            sender = threading.Thread(target=s.sendall, args=(text + b"quit\r\n",))
            sender.start()
            answer = bytearray()
            while piece := s.recv(1 << 16):
                answer += piece
            sender.join()
            return bytes(answer)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@pytest.fixture(scope="module", params=["on", "off"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    one = Server("--structure", "chm-table", "--tidy", request.param)
    yield one
    assert one.end() == 0


def test_server_stores_and_deletes(server: Server) -> None:
    assert server.ask(b"set a 5\r\nhello\r\nget a\r\ndelete a\r\nget a\r\n") == (
        b"STORED\r\nVALUE a 5\r\nhello\r\nEND\r\nDELETED\r\nEND\r\n"
    )
    assert server.ask(b"stats\r\n").endswith(b"END\r\n")
    assert server.ask(b"what\r\n") == b"ERROR\r\n"


def test_server_takes_commands_in_pieces(server: Server) -> None:
    with server.connect() as s:
        for byte in b"set piece 3\r\nabc\r\nget piece\r\nquit\r\n":
            s.sendall(bytes([byte]))
        assert s.makefile("rb").read() == b"STORED\r\nVALUE piece 3\r\nabc\r\nEND\r\n"


def test_server_sends_more_than_a_socket_takes(server: Server) -> None:
    value = os.urandom(1 << 20)
    assert server.ask(b"set big %d\r\n%s\r\n" % (len(value), value)) == b"STORED\r\n"
    answer = b"VALUE big %d\r\n%s\r\nEND\r\n" % (len(value), value)
    assert server.ask(b"get big\r\n" * 40) == answer * 40


def test_server_leaves_who_sends_no_lines(server: Server) -> None:
    with server.connect() as s:
        s.sendall(b"x" * 2000)
        assert s.recv(100).startswith(b"CLIENT_ERROR ")
    assert server.ask(b"get none\r\n") == b"END\r\n"


def test_server_has_many_connections(server: Server) -> None:
    sockets = [server.connect() for _ in range(200)]
    for i, s in enumerate(sockets):
        s.sendall(b"set many%d 4\r\n%04d\r\n" % (i, i))
    for s in sockets:
        assert s.recv(100) == b"STORED\r\n"
    for i, s in enumerate(sockets):
        s.sendall(b"get many%d\r\n" % i)
    for i, s in enumerate(sockets):
        assert b"%04d" % i in s.recv(100)
        s.close()


def test_server_does_not_share_its_port(server: Server) -> None:
    done = crestdb("serve", "--port", str(server.port))
    assert done.returncode == 1
    assert done.stderr == f"crestdb: port {server.port}: Address already in use\n"


def test_server_ends_with_connections_open() -> None:
    one = Server("--structure", "art")
    with one.connect() as s:
        s.sendall(b"set a 100\r\nhalf of it")
        assert one.end() == 0
