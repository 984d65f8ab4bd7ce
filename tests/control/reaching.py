"""What the control tests share: programs in a state, and raw connections to their socket."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from blackbox import Lab

CASES = Path(__file__).resolve().parent / "control_cases.c"
# For one step of an answer. A process that answers does so in milliseconds; one that hangs, never.
PATIENCE_SECONDS = 60


@contextlib.contextmanager
def started(
    lab: Lab,
    case: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    prefix: tuple[str | Path, ...] = (),
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A case of control_cases.c once it is ready, and what it printed before."""
    lab.require_strata()
    with lab.start(*prefix, lab.build(CASES), case, *arguments, env=env) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            if line == "ready\n":
                break
            lines.append(line.rstrip("\n"))
        else:
            pytest.fail(f"{case} ended with {process.wait()}: {lines}")
        yield process, lines


def connect(pid: int, timeout: float = 30) -> socket.socket:
    """A connection to the control socket, as soon as it is there."""
    deadline = time.monotonic() + timeout
    while True:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(f"\0strata-control/{pid}")
        except ConnectionRefusedError:
            link.close()
            assert time.monotonic() < deadline, f"{pid} has no control socket"
            time.sleep(0.02)
            continue
        link.settimeout(PATIENCE_SECONDS)
        return link


def receive_all(link: socket.socket) -> bytes:
    parts = []
    while part := link.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def key_of(pid: int) -> bytes:
    """What a request begins with: the key from the process's list of mappings."""
    maps = Path(f"/proc/{pid}/maps").read_bytes()
    found = re.findall(rb"/memfd:strata-key:([0-9a-f]{32}) \(deleted\)$", maps, re.MULTILINE)
    assert len(found) == 1, found
    return b"key " + bytes(found[0]) + b" "


def ask_raw(pid: int, request: bytes) -> bytes:
    """The whole answer to one line, head and all."""
    with connect(pid) as link:
        link.sendall(key_of(pid) + request + b"\n")
        return receive_all(link)


def body_of(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\n")
    assert head == b"ok %d" % len(body), head
    return body


# Takes every slot there is, and the queue, as another user, and says nothing.
FILLS = r"""
import os, socket, sys, time
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
links = []
for _ in range(12):
    links.append(socket.socket(socket.AF_UNIX))
    links[-1].connect("\0strata-control/" + sys.argv[1])
print("up", flush=True)
time.sleep(60)
"""


def crowd(pid: int, user: int) -> tuple[str, ...]:
    """The command by which another user does so."""
    return (sys.executable, "-c", FILLS, str(pid), str(user))
