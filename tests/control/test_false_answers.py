"""What a process answers, and how it is called, may be anything: no command shows where it broke,
waits for ever, or hands a terminal what it would obey."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, Lab
from command import strata

TERMINAL = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e"
NAME = "\x1b[31m[/x]\x9b"  # of at most 15 bytes

# Listens under its own number, as the library would, and answers all with one thing.
ANSWERS = r"""
import os, socket, sys, threading, time
body, after, name = open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[3]
open("/proc/self/comm", "w").write(name)
server = socket.socket(socket.AF_UNIX)
server.bind(f"\0strata-control/{os.getpid()}")
server.listen()
print("up", flush=True)
def serve(link):
    try:
        link.recv(2000)
        link.sendall(body)
        while after == "endless":
            link.sendall(1000 * body)
        while after == "drip":
            time.sleep(0.1)
            link.sendall(b"x")
        if after == "silent":
            time.sleep(60)
    except OSError:
        pass
    link.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@contextlib.contextmanager
def answering(lab: Lab, answer: bytes, after: str = "", name: str = "python") -> Iterator[int]:
    with tempfile.NamedTemporaryFile() as file, contextlib.ExitStack() as stack:
        file.write(answer)
        file.flush()
        command = (sys.executable, "-c", ANSWERS, file.name, after, name)
        process = stack.enter_context(lab.start(*command, preload=False, stderr=subprocess.DEVNULL))
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        yield process.pid


def ok(body: bytes) -> bytes:
    return b"ok %d\n" % len(body) + body


def assert_harmless(done: subprocess.CompletedProcess[str]) -> None:
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    assert all(c.isprintable() or c in "\n\t" for c in said), repr(said)


def assert_one_line(done: subprocess.CompletedProcess[str]) -> None:
    assert_harmless(done)
    assert done.returncode == 2 and done.stdout == "", done
    assert done.stderr.startswith("strata: ") and done.stderr.count("\n") == 1, done.stderr


# ---- what is no answer

NO_ANSWERS = {
    "nothing": b"",
    "no line": b"ok 5",
    "no length": b"ok \n",
    "negative": b"ok -1\nx",
    "other digits": "ok \u0661\n".encode() + b"x",
    "huge": b"ok 99999999999\n",
    "absurd": b"ok " + 400 * b"9" + b"\n",
    "short": b"ok 100\nshort",
    "too long": b"ok 2\nmuch more",
    "garbage": bytes(range(256)) * 4,
    "error for the terminal": f"error {TERMINAL}\n".encode(),
    "error that is no text": b"error \xff\xfe\x00\n",
    "error without end": b"error " + 5000 * b"x",
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_no_answer_is_one_line(lab: Lab, name: str) -> None:
    with answering(lab, NO_ANSWERS[name], name=NAME) as pid:
        assert_one_line(strata("stats", pid))


@pytest.mark.parametrize("answer", [b"x", b"ok 5\nhello"])
def test_answer_without_end_ends(lab: Lab, answer: bytes) -> None:
    with answering(lab, answer, "endless") as pid:
        assert_one_line(strata("stats", pid))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    return importlib.import_module("strata.control")


@pytest.mark.parametrize(
    ("answer", "after"), [(b"o", "drip"), (b"", "silent"), (b"ok 9999\n", "drip")]
)
def test_answer_that_drips_ends(
    lab: Lab, client: Any, monkeypatch: pytest.MonkeyPatch, answer: bytes, after: str
) -> None:
    """Each byte comes in time, but all together never would."""
    monkeypatch.setattr(client, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(client, "ANSWER_SECONDS", 1.0)
    with (
        answering(lab, answer, after) as pid,
        pytest.raises(client.StrataError, match="does not answer"),
    ):
        client.ask(client.Process(pid), "version")


# ---- what is none that makes sense

DEEP = b"[" * 100_000
STATS = {"strata": TERMINAL, "pid": 1, "cache_mode": TERMINAL, "bytes": {}, "classes": "x"}
BODIES = {
    "empty": b"",
    "no text": b"\xff\xfe\x00\x1b[31m",
    "deep": DEEP,
    "list": b"[]",
    "null": b"null",
    "infinite": b'{"strata": "1", "pid": 1e999}',
    "other types": json.dumps(STATS).encode(),
    "escapes": TERMINAL.encode(),
    "no profile": gzip.compress(b"this is no profile"),
    "truncated profile": gzip.compress(bytes(range(256)) * 64)[:-20],
    "bomb": gzip.compress(b"\0" * (64 << 20)),
    "lines": f"{TERMINAL}={TERMINAL}\t{TERMINAL}\na=b\tc\td\te\tf\n=\n".encode(),
}


@pytest.mark.parametrize("body", BODIES)
def test_senseless_answers_harm_no_command(lab: Lab, tmp_path: Path, body: str) -> None:
    with answering(lab, ok(BODIES[body]), name=NAME) as pid:
        done = strata("stats", pid)
        assert_harmless(done)
        assert done.returncode == 0
        assert_one_line(strata("profile", pid, "-o", tmp_path / "x.pb.gz"))
        assert_one_line(strata("release", pid))
        assert_harmless(strata("get", pid))


@pytest.mark.parametrize("body", ["no text", "deep", "other types"])
def test_senseless_answers_make_no_report(lab: Lab, tmp_path: Path, body: str) -> None:
    """Which says what it could not use, a line each."""
    with answering(lab, ok(BODIES[body]), name=NAME) as pid:
        done = strata("report", pid, "-o", tmp_path / "report", "--seconds", 0)
        assert_harmless(strata("doctor", pid))
        assert_harmless(strata("get", pid, "release"))
    assert_harmless(done)
    assert done.returncode == 2
    assert all(line.startswith("strata: ") for line in done.stderr.splitlines())


def test_watch_of_senseless_figures_is_one_line(lab: Lab) -> None:
    for body in (b"\xff", DEEP, b"[]", b'{"bytes": 1e999}'):
        with answering(lab, ok(body), name=NAME) as pid:
            done = strata("stats", pid, "--watch", "0.1")
            assert_harmless(done)
            assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_answers_that_are_right_stay_as_they_are(lab: Lab) -> None:
    text = json.dumps({"name": "caf\u00e9 \x1b\x7f\u202e"}, ensure_ascii=False) + "\n"
    with answering(lab, ok(text.encode())) as pid:
        shown = strata("stats", pid, "--format", "json").stdout
    assert json.loads(shown) == {"name": "caf\u00e9 \x1b\x7f\u202e"} and "caf\u00e9" in shown


# ---- names


def test_names_of_processes_reach_no_terminal(lab: Lab) -> None:
    with answering(lab, b"error no\n", name=NAME) as pid:
        listed = strata("ps")
        assert_harmless(listed)
        assert "\\u001b[31m[/x]\\u009b" in listed.stdout
        for command in (("stats", pid), ("get", pid), ("set", pid, "a=b"), ("stats", NAME)):
            assert_one_line(strata(*command))
