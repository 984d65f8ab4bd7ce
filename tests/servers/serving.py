"""What the tests of servers share: the modules, built once, and answers to compare."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from blackbox import ROOT, Lab, connect, missing, need, status_kib

# What may differ between two equal answers.
VOLATILE = {"date", "server", "connection", "keep-alive"}


def apr_preload(lab: Lab) -> str:
    """LD_PRELOAD for pools of APR on reaps."""
    library = lab.require_strata()
    apr = library.parent / "libstrata-apr.so"
    if not apr.exists():
        missing(f"{apr} is not built: APR's headers (libapr1-dev) were not there")
    return f"{library}:{apr}"


def build_modules(server: str, folder: Path) -> Path:
    """The modules of servers/SERVER; a server without its development package is left out."""
    done = subprocess.run(
        [str(ROOT / "servers" / server / "build.sh"), str(folder)],
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


def compare_under_load(port: int, requests: list[Asked], expected: list[Answer], seed: int) -> str:
    """Asks in a random order; the first wrong answer, or nothing."""
    order = list(range(len(requests)))
    random.Random(seed).shuffle(order)
    got = ask_all(port, [requests[i] for i in order])
    for index, answer in zip(order, got, strict=True):
        if answer != expected[index]:
            return f"{requests[index].path}: {told(answer)} is not {told(expected[index])}"
    return ""


def in_parallel(port: int, requests: list[Asked], expected: list[Answer], threads: int) -> None:
    """The same from several connections at once."""
    wrong: list[str] = []

    def one(seed: int) -> None:
        try:
            wrong.append(compare_under_load(port, requests, expected, seed))
        except (OSError, http.client.HTTPException, AssertionError) as error:
            wrong.append(repr(error))

    running = [threading.Thread(target=one, args=(seed,)) for seed in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not any(wrong), [w for w in wrong if w][:3]


def load(port: int, path: str, *options: str) -> None:
    """ab, Apache's own load generator: everything is answered, and answered alike."""
    done = subprocess.run(
        [need("ab"), "-q", "-n", "3000", "-c", "8", *options, f"http://127.0.0.1:{port}{path}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^Complete requests: +3000$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^Failed requests: +0$", done.stdout, re.MULTILINE), done.stdout
    assert "Non-2xx" not in done.stdout, done.stdout


def children(pid: int) -> list[int]:
    """The processes below one, at any depth."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += [int(child), *children(int(child))]
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
