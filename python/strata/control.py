"""The client of the control socket: one request, one answer. docs/control.md is the protocol.

Neither side believes the other. The process answers to who can tell the key that stands in its list
of mappings; the key is told to nobody but the process, one of whose threads must hold the very
socket that listens. What comes back may be anything, and is bounded in length and time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from strata.errors import StrataError, why_refused
from strata.processes import Process

CLONE_NEWNET = 0x40000000
PATIENCE_SECONDS = 30.0
ANSWER_SECONDS = 60.0  # for all of an answer that has begun, as the library has it
MOST_BYTES = 256 << 20  # an answer longer than this is no answer of ours
MOST_HEAD = 512
OK = re.compile(rb"ok ([0-9]{1,12})")
WHO_MAY_ASK = b"error only the user of this process, or root, may ask"
ROOT = 0
ALWAYS = "; STRATA_CONTROL=always starts it at once"


class ImpostorError(StrataError):
    """Another process listens under a name of this one's socket."""


class RefusedError(StrataError):
    """The process says that we may not ask it."""


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
    ours = Path("/proc/thread-self/ns/net")
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
        # It was asked for already: what holds the thread up is something else.
        hint = "" if process.option("CONTROL") == "always" else ALWAYS
        return StrataError(
            f"{what} has not started its background thread yet: it has less than 8 MiB in use, or "
            f"runs under a seccomp filter{hint}"
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


def _keys(process: Process) -> list[str]:
    """The keys that the process may go by; whoever may not see them may not ask."""
    what = f"process {process.pid} ({process.name})"
    try:
        return process.keys()
    except OSError as error:
        why = why_refused(error)
        hint = "ask as root" if os.geteuid() != ROOT else "capabilities are missing"
        raise StrataError(
            f"{what} does not show you its mappings ({why}), in which the key to its control "
            f"socket is: {hint}"
        ) from error


def _check_server(link: socket.socket, process: Process) -> None:
    """Anybody may take an abstract name; the kernel says who did."""
    size = struct.calcsize("3i")
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, _ = struct.unpack("iIi", credentials)
    if pid != process.pid:
        raise ImpostorError(
            f"process {pid} listens in the place of process {process.pid}: not asking it"
        )
    # A process that was root when it began to listen may be somebody else now, but not the reverse.
    if uid not in (ROOT, process.uid):
        raise ImpostorError(
            f"user {uid} listens in the place of process {process.pid}: not asking it"
        )


def _connect(process: Process, name: str) -> socket.socket:
    """A connection to this socket, if it is the process that listens."""
    with contextlib.ExitStack() as stack:
        before = process.listeners().get(name)
        link = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        link.setblocking(False)
        link.connect(f"\0{name}")
        _check_server(link, process)
        # The pid is the one that listened first, and may since have been given to another process:
        # what counts is who has the socket. The same before and after: it is the one we are on.
        inode = process.listeners().get(name)
        if inode is None or inode != before or not process.holds(inode):
            raise ImpostorError(
                f"a socket that process {process.pid} does not hold has its name: not asking it"
            )
        stack.pop_all()
        return link


def _reach(process: Process) -> socket.socket:
    """A connection to the process's socket, whichever of the possible names it has."""
    what = f"process {process.pid} ({process.name})"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        busy = False
        impostor: ImpostorError | None = None
        for name in process.socket_names():
            try:
                return _connect(process, name)
            except ImpostorError as error:
                impostor = impostor or error
            except ConnectionRefusedError:
                continue
            except BlockingIOError:  # its queue is full: others are served first
                busy = True
            except OSError as error:
                raise StrataError(f"{what}: {why_refused(error)}") from error
        if not busy:
            raise impostor or _why_unreachable(process)
        if time.monotonic() >= deadline:
            raise StrataError(f"{what} does not answer: is it stopped?")
        time.sleep(0.05)


def _receive(link: socket.socket, deadline: float) -> bytes:
    """What has come, empty at the end; TimeoutError if nothing has until then."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    link.settimeout(left)
    return link.recv(1 << 16)


def _read_answer(link: socket.socket, what: str, extra_seconds: float) -> bytes:
    """The body of the answer, which is as long as its head says and then ends."""
    data = bytearray()
    length = 0
    deadline = time.monotonic() + PATIENCE_SECONDS + extra_seconds
    while b"\n" not in data:
        part = _receive(link, deadline)
        data += part
        if not part or (len(data) > MOST_HEAD and b"\n" not in data[:MOST_HEAD]):
            break
    head, _, rest = bytes(data).partition(b"\n")
    if head.startswith(b"error ") and len(head) <= MOST_HEAD:
        if head.startswith(WHO_MAY_ASK):
            raise RefusedError(f"{what}: {head[6:].decode(errors='replace')}")
        raise StrataError(f"{what}: {head[6:].decode(errors='replace')}")
    found = OK.fullmatch(head)
    if found is None or len(head) == len(data) or int(found[1]) > MOST_BYTES:
        raise StrataError(f"{what} ended the connection without an answer")
    length = int(found[1])
    body = bytearray(rest)
    deadline = time.monotonic() + ANSWER_SECONDS
    while len(body) <= length and (part := _receive(link, deadline)):
        body += part
    if len(body) > length:
        raise StrataError(f"{what} sent more than the {length} bytes that it announced")
    if len(body) < length:
        raise StrataError(f"{what} ended in the middle of its answer")
    return bytes(body)


def _ask_with(process: Process, key: str, request: str, extra_seconds: float) -> bytes:
    what = f"process {process.pid} ({process.name})"
    with contextlib.ExitStack() as stack:
        with _in_namespace_of(process):
            link = stack.enter_context(_reach(process))
        link.settimeout(PATIENCE_SECONDS)
        try:
            with contextlib.suppress(BrokenPipeError):  # refused already: the answer says why
                link.sendall(f"{key}{request}\n".encode("ascii"))
            return _read_answer(link, what, extra_seconds)
        except UnicodeEncodeError as error:
            raise StrataError(f"{request!r}: only plain ASCII can be sent") from error
        except TimeoutError as error:
            raise StrataError(f"{what} does not answer: is it stopped?") from error
        except OSError as error:
            raise StrataError(f"{what}: {why_refused(error)}") from error


def ask(process: Process, request: str, extra_seconds: float = 0) -> bytes:
    """Sends one request and returns the body of the answer; every failure is a StrataError.

    `extra_seconds` is how long the answer takes by design, on top of the usual patience.
    """
    _check_rights(process)
    if not process.socket_names():
        raise _why_unreachable(process)
    # Anything in the process may take such a name, and an old key may have been left.
    first, *others = [f"key {key} " for key in _keys(process)] or [""]
    try:
        return _ask_with(process, first, request, extra_seconds)
    except RefusedError:
        for key in others:
            with contextlib.suppress(RefusedError):
                return _ask_with(process, key, request, extra_seconds)
        raise
