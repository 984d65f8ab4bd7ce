"""What /proc says about processes that run Strata: which they are, why one is silent."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata.errors import StrataError, why_refused

PROC = Path("/proc")
SOCKET_NAME = "strata-control/"
THREAD_NAME = "strata"
KEY = re.compile(rb"/memfd:strata-key:([0-9a-f]{32}) \(deleted\)$")
LISTENS = 0x10000  # in the flags of /proc/net/unix
NO_INODE = 0


def _hex(word: str) -> int:
    return int(word, 16) if re.fullmatch("[0-9A-Fa-f]+", word) else 0


@functools.lru_cache(maxsize=2)  # thousands of processes show the same one
def _listening(net_unix: str) -> Mapping[str, int]:
    """The inodes of the sockets that listen under abstract names, by a text of net/unix."""
    found: dict[str, int] = {}
    for line in net_unix.split("\n")[1:]:
        # number, references, protocol, flags, type, state, inode, name
        fields = line.split(" @", 1)
        numbers = fields[0].split()
        if len(fields) == 2 and len(numbers) == 7 and _hex(numbers[3]) & LISTENS:
            inode = int(numbers[6]) if re.fullmatch("[0-9]{1,20}", numbers[6]) else NO_INODE
            found[fields[1]] = inode if found.get(fields[1], inode) == inode else NO_INODE
    return found


class NoSuchProcessError(StrataError):
    """No process has the number or the name."""


@dataclass(frozen=True)
class Process:
    """One process, as this namespace sees it."""

    pid: int

    @property
    def folder(self) -> Path:
        return PROC / str(self.pid)

    def read(self, name: str) -> str:
        """A file of its folder; empty if it cannot be read, or the process is gone."""
        try:
            return (self.folder / name).read_text(errors="replace")
        except OSError:
            return ""

    def lines(self, name: str) -> list[str]:
        """The same by lines as the kernel ends them: a name in one may hold what Python's
        splitlines takes for another end, and what it likes behind that."""
        return self.read(name).split("\n")

    def status(self, key: str) -> list[str]:
        """The words of a line of its status; none if it is gone."""
        start = f"{key}:"
        found = (line for line in self.lines("status") if line.startswith(start))
        return next(found, "").removeprefix(start).split()

    @property
    def name(self) -> str:
        return self.read("comm").rstrip("\n")

    @property
    def uid(self) -> int | None:
        """The user whose rights it has; None if it is gone."""
        words = self.status("Uid")
        return int(words[1]) if words else None

    @property
    def user(self) -> str:
        uid = self.uid
        try:
            return pwd.getpwuid(uid).pw_name if uid is not None else "?"
        except KeyError:
            return str(uid)

    @property
    def own_pid(self) -> int:
        """Its pid as it sees itself: the last one, if it lives in a pid namespace."""
        words = self.status("NSpid")
        return int(words[-1]) if words else self.pid

    @property
    def resident(self) -> int:
        """Its RSS in bytes."""
        words = self.status("VmRSS")
        return int(words[0]) * 1024 if words else 0

    def maps_library(self) -> bool | None:
        """Whether libstrata.so is mapped; None if that cannot be seen."""
        try:
            text = (self.folder / "maps").read_bytes()
        except OSError:
            return None
        names = (b"/libstrata.so", b"/libstrata-musl.so")
        return any(name in line for line in text.split(b"\n") for name in names)

    def runs_strata(self) -> bool:
        """It maps the library, or listens as one that is linked into a program does."""
        return bool(self.maps_library()) or self.listens()

    def keys(self) -> list[str]:
        """What a request has to begin with, from its list of mappings: the keys to its socket. None
        if the library is of before there were keys. OSError if the list may not be read."""
        text = (self.folder / "maps").read_bytes()
        found = (KEY.search(line) for line in text.split(b"\n"))
        return list(dict.fromkeys(match[1].decode() for match in found if match))

    def why_no_maps(self) -> str:
        """What the kernel says to somebody who may not see its mappings; empty if one may."""
        try:
            (self.folder / "maps").read_bytes()
        except OSError as error:
            return why_refused(error)
        return ""

    def socket_names(self) -> list[str]:
        """Names that its control socket may have, the plain one first.

        Where that was taken (containers with one network and a process 1 each), the library adds
        a random suffix. Anybody may take any name: whoever connects checks who listens.
        """
        plain = f"{SOCKET_NAME}{self.own_pid}"
        names = self.listeners()
        return sorted(name for name in names if name == plain or name.startswith(f"{plain}."))

    def listeners(self) -> Mapping[str, int]:
        """The inodes of the sockets that listen under abstract names in its network namespace.

        The names stand there as they are, line ends too: one that is there twice, with another
        inode, may be made up by a third, and counts as no inode."""
        # The library's thread made its socket in its own namespace, which the others may leave.
        thread = self.library_thread() or self.pid
        return _listening(self.read(f"task/{thread}/net/unix"))

    def holds(self, inode: int) -> bool:
        """Whether one of its threads has this socket open: the library's has its own table."""
        if inode == NO_INODE:
            return False
        wanted = f"socket:[{inode}]"
        ours = self.library_thread()
        others = [thread for thread, _ in self.threads() if thread != ours]
        for thread in [ours, *others] if ours else others:
            try:
                for link in (self.folder / "task" / str(thread) / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        if str(link.readlink()) == wanted:
                            return True
            except OSError:
                continue
        return False

    def listens(self) -> bool:
        """Whether its control socket, or one of a process of the same number, is there."""
        return bool(self.socket_names())

    def threads(self) -> Iterator[tuple[int, str]]:
        """Its threads and their names."""
        try:
            tasks = sorted((self.folder / "task").iterdir(), key=lambda path: int(path.name))
        except OSError:
            return
        for task in tasks:
            try:
                yield int(task.name), (task / "comm").read_text(errors="replace").rstrip("\n")
            except OSError:
                continue

    def library_thread(self) -> int | None:
        """The background thread; None if it was not started, or has not taken its name yet."""
        found = (t for t, name in self.threads() if name == THREAD_NAME and t != self.pid)
        return next(found, None)

    def runs_a_command(self) -> bool:
        """Whether it is `strata run`, which stays as the parent of what it started."""
        words = self.read("cmdline").split("\0")[:5]
        return any(
            Path(word).name == "strata" and following == "run"
            for word, following in itertools.pairwise(words)
        )

    def option(self, name: str) -> str:
        """What STRATA_name was at its start; empty if it was not set or cannot be seen."""
        prefix = f"STRATA_{name}="
        for entry in self.read("environ").split("\0"):
            if entry.startswith(prefix):
                return entry.removeprefix(prefix)
        return ""


def state_of(process: Process) -> str:
    """In a few words, whether the process can be asked, or why not."""
    if process.listens():
        return "reachable" if not process.why_no_maps() else "reachable, not by you"
    for name in ("CONTROL", "BACKGROUND"):
        if process.option(name) in ("off", "0"):
            return f"off (STRATA_{name}={process.option(name)})"
    if process.library_thread() is None:
        return "no thread yet"
    return "no socket"


def all_processes() -> Iterator[Process]:
    """Every process that /proc shows."""
    for folder in sorted(PROC.iterdir(), key=lambda path: path.name):
        if folder.name.isdecimal():
            yield Process(int(folder.name))


def strata_processes() -> Iterator[Process]:
    return (process for process in all_processes() if process.runs_strata())


def command_of(runner: Process) -> Process | None:
    """What a `strata run` started; None if that is no more, or not there yet."""
    parent = str(runner.pid)
    return next((p for p in all_processes() if p.status("PPid") == [parent]), None)


def find_process(target: str) -> Process:
    """The process that a pid or a name means; of a `strata run` the command that it runs."""
    if not target:  # as of a variable that is not set
        raise StrataError("expected a process, got an empty name")
    if re.fullmatch("[0-9]{1,18}", target):
        process = Process(int(target))
        if not process.folder.is_dir():
            raise NoSuchProcessError(f"no process {target}")
        seen = {process.pid}  # `sudo strata run` is one, too, and its child another
        while process.runs_a_command():
            below = command_of(process)
            if below is None or below.pid in seen:
                break
            seen.add(below.pid)
            process = below
        return process
    named = [p for p in all_processes() if p.name == target[:15] and p.pid != os.getpid()]
    if not named:
        raise NoSuchProcessError(f"no process is called {target}")
    ours = [p for p in named if p.runs_strata()]
    if len(ours) == 1:
        return ours[0]
    if ours:
        pids = ", ".join(str(p.pid) for p in sorted(ours, key=lambda p: p.pid))
        raise StrataError(f"{len(ours)} processes called {target} run Strata: name one of {pids}")
    if len(named) == 1:
        return named[0]
    raise StrataError(f"none of the {len(named)} processes called {target} runs Strata")
