"""What the tests of servers share: the modules, built once, servers, and answers to compare. What
is expected of both servers alike is in expectations.py."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.client
import http.server
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from blackbox import ROOT, Lab, connect, free_port, missing, status_kib

UNCHANGED_SINCE = "Tue, 14 Nov 2023 22:13:20 GMT"  # what make_files says of its files
# What may differ between two equal answers. One that ends its connection needs no chunks.
VOLATILE = {"date", "server", "connection", "keep-alive", "transfer-encoding"}


def apr_preload(lab: Lab) -> str:
    """LD_PRELOAD for pools of APR on reaps."""
    library = lab.require_strata()
    apr = library.parent / "libstrata-apr.so"
    if not apr.exists():
        missing(f"{apr} is not built: APR's headers (libapr1-dev) were not there")
    return f"{library}:{apr}"


@functools.cache
def build_modules(server: str, folder: Path, *further: Path) -> Path:
    """The modules of servers/SERVER, built once; a server without its development package is left
    out."""
    done = subprocess.run(
        [str(ROOT / "servers" / server / "build.sh"), str(folder), *map(str, further)],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    if done.returncode == 3:
        missing(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that a server may read after it has given up being root."""
    folder = Path(tempfile.mkdtemp(prefix="strata-servers-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_files(folder: Path) -> list[str]:
    """Files of many sizes; their names."""
    draw = random.Random(11)
    folder.mkdir()
    sizes = [0, 1, 4095, 4096, 70_000, 1_000_000, *(draw.randrange(40_000) for _ in range(12))]
    names = []
    for number, size in enumerate(sizes):
        name = f"{number}.{'txt' if number % 2 else 'bin'}"
        data = b"some text\n" * (size // 10 + 1) if number % 2 else draw.randbytes(size)
        (folder / name).write_bytes(data[:size])
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))  # fresh files get a weak ETag
        names.append(name)
    return names


class Upstream(http.server.BaseHTTPRequestHandler):
    """A server behind the server, which answers with what its path says and closes."""

    def do_GET(self) -> None:
        body = f"{self.path} ".encode() * (len(self.path) * 40)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        got = self.rfile.read(int(self.headers["Content-Length"]))
        body = hashlib.sha256(got).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def upstream() -> Iterator[int]:
    """Its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def log_on_failure(log: Path) -> Iterator[None]:
    """What a server wrote belongs to the failure of its test."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"{log}:\n" + "\n".join(log.read_text().splitlines()[-30:]))
        raise


@dataclass
class Asked:
    """One request."""

    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass
class Answer:
    """What came back, without what changes from one moment to the next."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def without_boundary(answer: Answer) -> Answer:
    """An answer in parts has a number of its own, of any length, between them."""
    kind = dict(answer.headers).get("Content-Type", "")
    if "boundary=" in kind:
        boundary = kind.split("boundary=")[1].strip('"')
        answer.body = answer.body.replace(boundary.encode(), b"boundary")
        headers = [(k, v) for k, v in answer.headers if k != "Content-Length"]
        answer.headers = [(k, v.replace(boundary, "boundary")) for k, v in headers]
    return answer


def ask(connection: http.client.HTTPConnection, asked: Asked) -> Answer:
    """One answer. A worker that a restart retires may close the connection instead."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            connection.request(asked.method, asked.path, asked.body, asked.headers)
            response = connection.getresponse()
            body = response.read()
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            connection.close()
            last = error
            time.sleep(0.05)
            continue
        headers = [(k, v) for k, v in response.getheaders() if k.lower() not in VOLATILE]
        return without_boundary(Answer(response.status, headers, body))
    raise AssertionError(f"no answer to {asked}: {last!r}")


def ask_all(port: int, requests: list[Asked]) -> list[Answer]:
    """All answers over one connection that is kept open."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        return [ask(connection, asked) for asked in requests]
    finally:
        connection.close()


def told(answer: Answer) -> str:
    return f"{answer.status} {answer.headers} {len(answer.body)} bytes {answer.body[:40]!r}"


def children(pid: int) -> list[int]:
    """The processes below one, at any depth."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += [int(child), *children(int(child))]
    return found


def anonymous_kib(pid: int) -> dict[int, int]:
    """What each process below one has of memory that no file is behind."""
    found = {}
    for child in children(pid):
        with contextlib.suppress(OSError, AssertionError):
            found[child] = status_kib(child, "RssAnon")
    return found


def peak_kib(pid: int) -> int:
    """The largest peak of the processes below one."""
    peaks = [0]
    for child in children(pid):
        with contextlib.suppress(OSError, AssertionError):
            peaks.append(status_kib(child, "VmHWM"))
    return max(peaks)


def until(what: str, true: object, timeout: float = 60) -> None:
    """Waits until a function gives something true."""
    assert callable(true)
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.05)


def is_root() -> bool:
    return os.geteuid() == 0


def wait_for(port: int, process: subprocess.Popen[str]) -> None:
    """Until it answers: Apache listens before it can take a signal."""
    connect(port, process).close()
    ask_all(port, [Asked("/absent")])


class Site:
    """A server's files, its configuration for each kind of pool, and servers over them. What is
    special to nginx or Apache is in the class below."""

    stop_signal: signal.Signals
    restart_signal: signal.Signals
    settled = Asked("/absent")  # answered once a restart is over
    bad_lines: tuple[str, ...]  # of the error log
    lost_in_restarts: tuple[str, ...] = ()  # paths that the server without us may fail to answer

    def __init__(self, lab: Lab, folder: Path, modules: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.modules = modules
        self.names = make_files(folder / "files")

    def command(self, configuration: Path) -> list[str | Path]:
        raise NotImplementedError

    def environment(self) -> dict[str, str] | None:
        """What it takes to have pools on reaps, besides the library."""
        return None

    def configuration(self, port: int, *, reaps: bool, more: str = "") -> tuple[Path, Path]:
        """The file, and the folder that this kind of server has for itself."""
        raise NotImplementedError

    def requests(self) -> list[Asked]:
        raise NotImplementedError

    @contextlib.contextmanager
    def server(
        self, *, reaps: bool, more: str = ""
    ) -> Iterator[tuple[int, subprocess.Popen[str], Path]]:
        """Its port, its process and its folder."""
        port = free_port()
        path, own = self.configuration(port, reaps=reaps, more=more)
        for log in ("error.log", "access.log"):
            (own / log).unlink(missing_ok=True)
        console = own / "console"
        started = self.lab.start(
            *self.command(path),
            preload=reaps,
            env=self.environment() if reaps else None,
            stdout=console.open("w"),
            stderr=subprocess.STDOUT,
        )
        with started as process, log_on_failure(own / "error.log"):
            wait_for(port, process)
            yield port, process, own
        assert console.read_text() == ""

    def stop(self, process: subprocess.Popen[str], own: Path) -> None:
        """The server ends in its own way, which runs the cleanups of its pools; in its eyes nothing
        went wrong: no crash, no leftover child, no lack of memory."""
        process.send_signal(self.stop_signal)
        assert process.wait(timeout=60) == 0
        lines = (own / "error.log").read_text().splitlines()
        bad = [line for line in lines if any(word in line for word in self.bad_lines)]
        assert not bad, bad[:5]
