"""The client of the control socket: one request, one answer. docs/control.md is the protocol."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from strata.errors import StrataError
from strata.processes import SOCKET_NAME, Process

CLONE_NEWNET = 0x40000000
PATIENCE_SECONDS = 30.0
MOST_BYTES = 1 << 30  # an answer longer than this is no answer of ours


class ImpostorError(StrataError):
    """Another process listens under a name of this one's socket."""


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextlib.contextmanager
def _in_namespace_of(process: Process) -> Iterator[None]:
    """Enters the network namespace that the process's socket is in, where it is another one."""
    thread = process.library_thread() or process.pid
    theirs = process.folder / "task" / str(thread) / "ns" / "net"
    ours = Path("/proc/self/ns/net")
    try:
        same = theirs.stat().st_ino == ours.stat().st_ino
    except OSError:
        same = True  # not ours to see: connecting will tell
    if same:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            back = os.open(ours, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, back)
            there = os.open(theirs, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, there)
            _set_namespace(there)
        except OSError as error:
            raise StrataError(
                f"process {process.pid} is in another network namespace (a container?): "
                "ask as root, or from inside"
            ) from error
        stack.callback(_set_namespace, back)
        yield


def _why_unreachable(process: Process) -> StrataError:
    """What to tell somebody whose process has no socket."""
    what = f"process {process.pid} ({process.name})"
    mapped = process.maps_library()
    if mapped is None and not process.folder.is_dir():
        return StrataError(f"no process {process.pid}")
    if mapped is False:
        return StrataError(f"{what} does not run on Strata: start it with `strata run -- COMMAND`")
    for name in ("CONTROL", "BACKGROUND"):
        value = process.option(name)
        if value in ("off", "0"):
            return StrataError(f"{what} was started with STRATA_{name}={value}: nobody answers")
    if process.library_thread() is None:
        if mapped is None:
            return StrataError(
                f"cannot tell whether {what} runs on Strata: it has no control socket, and "
                f"{process.folder / 'maps'} cannot be read ({process.why_no_maps()})"
            )
        return StrataError(
            f"{what} has not started its background thread yet: it has less than 1 MiB in use and "
            "has not allocated since its start; STRATA_CONTROL=always starts it at once"
        )
    return StrataError(
        f"{what} has no control socket: start it with STRATA_VERBOSE=1 to see what was refused"
    )


def _check_rights(process: Process) -> None:
    uid = process.uid
    if uid is None:
        raise StrataError(f"no process {process.pid}")
    if os.geteuid() not in (0, uid):
        raise StrataError(
            f"process {process.pid} ({process.name}) belongs to {process.user}: "
            f"ask as {process.user} or as root"
        )


def _check_server(link: socket.socket, process: Process) -> None:
    """Anybody may take an abstract name; the kernel says who did."""
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if pid != process.pid:
        raise ImpostorError(
            f"process {pid} listens in the place of process {process.pid}: not asking it"
        )


def _connect(process: Process, name: str) -> socket.socket:
    """A connection to this socket, if it is the process that listens."""
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        link.setblocking(False)
        link.connect(f"\0{name}")
        _check_server(link, process)
        stack.pop_all()
        return link


def _reach(process: Process) -> socket.socket:
    """A connection to the process's socket, whichever of the possible names it has."""
    what = f"process {process.pid} ({process.name})"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        busy = False
        impostor: ImpostorError | None = None
        for name in process.socket_names() or [f"{SOCKET_NAME}{process.own_pid}"]:
            try:
                return _connect(process, name)
            except ImpostorError as error:
                impostor = impostor or error
            except ConnectionRefusedError:
                continue
            except BlockingIOError:  # its queue is full: others are served first
                busy = True
            except OSError as error:
                raise StrataError(f"{what}: {(error.strerror or str(error)).lower()}", 1) from error
        if not busy:
            raise impostor or _why_unreachable(process)
        if time.monotonic() >= deadline:
            raise StrataError(f"{what} does not answer: is it stopped?", 1)
        time.sleep(0.05)


def _read_answer(link: socket.socket, what: str) -> bytes:
    with link.makefile("rb") as stream:
        head = stream.readline(512)
        kind, _, rest = head.decode(errors="replace").rstrip("\n").partition(" ")
        if kind == "error":
            raise StrataError(f"{what}: {rest}", 1)
        if kind != "ok" or not rest.isdecimal() or int(rest) > MOST_BYTES:
            raise StrataError(f"{what} ended the connection without an answer", 1)
        body = stream.read(int(rest))
    if len(body) != int(rest):
        raise StrataError(f"{what} ended in the middle of its answer", 1)
    return body


def ask(process: Process, request: str, extra_seconds: float = 0) -> bytes:
    """Sends one request and returns the body of the answer; every failure is a StrataError.

    `extra_seconds` is how long the answer takes by design, on top of the usual patience.
    """
    what = f"process {process.pid} ({process.name})"
    _check_rights(process)
    with contextlib.ExitStack() as stack:
        with _in_namespace_of(process):
            link = stack.enter_context(_reach(process))
        link.settimeout(PATIENCE_SECONDS + extra_seconds)
        try:
            with contextlib.suppress(BrokenPipeError):  # refused already: the answer says why
                link.sendall(request.encode("ascii") + b"\n")
            return _read_answer(link, what)
        except UnicodeEncodeError as error:
            raise StrataError(f"{request!r}: only plain ASCII can be sent") from error
        except TimeoutError as error:
            raise StrataError(f"{what} does not answer: is it stopped?", 1) from error
        except OSError as error:
            raise StrataError(f"{what}: {(error.strerror or str(error)).lower()}", 1) from error
