"""What the rules of `strata doctor` look at and what they say. Every file is read below a root, so
that a test is a folder of text files; a file that is missing, unreadable or makes no sense is an
exception here and becomes "could not tell" in one place, not in each rule."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from strata.errors import why_refused

KIB = 1 << 10
STRATA = re.compile(r"/libstrata\.so[^/]*$")
MEMORY_HOLDERS = "ps -eo pid,rss,comm --sort=-rss | head  # who holds the memory"
SWAP_HOLDERS = "grep VmSwap /proc/[0-9]*/status | sort -k2 -n -r | head  # who is swapped out"
V2 = "/sys/fs/cgroup"
DELETED = " (deleted)"  # how the kernel marks a file that is gone


class State(Enum):
    OK = "ok"
    MEND = "mend"
    UNKNOWN = "unknown"


class Weight(Enum):
    """How much it matters when it is not as it should be."""

    MUCH = "matters much"
    SOME = "matters"
    LITTLE = "matters little"


@dataclass(frozen=True)
class Finding:
    """What one rule found. `fixes` are commands that can be pasted, or a line for a person."""

    rule: str
    state: State
    says: str
    weight: Weight = Weight.SOME
    fixes: tuple[str, ...] = ()


class CannotTellError(Exception):
    """A rule lacks what it needs; the text says what."""


def cannot_tell(name: str, error: OSError) -> CannotTellError:
    return CannotTellError(f"{name}: {why_refused(error)}")


@dataclass(frozen=True)
class View:
    """One machine, and of it one process or the one that asks."""

    root: Path = Path("/")
    pid: int | None = None
    # what the process's control socket answers to a request; raises CannotTellError
    ask: Callable[[str], bytes] | None = None
    # why a preload cannot work in the process's program, if it cannot
    obstacle: Callable[[Path], str | None] = field(default=lambda _: None)
    wait: Callable[[float], None] = time.sleep

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str:
        try:
            return self.path(name).read_text(errors="surrogateescape")
        except OSError as error:
            raise cannot_tell(name, error) from error

    def exists(self, name: str) -> bool:
        try:
            return self.path(name).exists()
        except OSError as error:
            raise cannot_tell(name, error) from error

    def number(self, name: str) -> int:
        text = self.read(name).strip()
        if not re.fullmatch(r"-?\d+", text):
            raise CannotTellError(f"{name} holds {text[:40]!r}, no number")
        return int(text)

    def choice(self, name: str) -> str:
        """The one in brackets, as `always [madvise] never`."""
        text = self.read(name)
        found = re.search(r"\[([a-z+]+)\]", text)
        if found is None:
            raise CannotTellError(f"{name} holds {text.strip()[:40]!r}, no choice")
        return found[1]

    def meminfo(self, key: str) -> int:
        """A line of /proc/meminfo in bytes."""
        return self._kib("/proc/meminfo", key)

    def _kib(self, name: str, key: str) -> int:
        found = re.search(rf"^{key}:\s+(\d+) kB$", self.read(name), re.M)
        if found is None:
            raise CannotTellError(f"{name} has no {key}")
        return int(found[1]) * KIB

    # ---- the process: the named one, or ours

    def proc(self, name: str) -> str:
        return f"/proc/{self.pid if self.pid is not None else 'self'}/{name}"

    def process_kib(self, name: str, key: str) -> int:
        return self._kib(self.proc(name), key)

    def environment(self) -> dict[str, str]:
        # glibc ends each of its tunables with a zero, in the environment itself.
        text = re.sub(r"\0(?=glibc\.[\w.]+=)", ":", self.read(self.proc("environ")))
        pairs = (entry.partition("=") for entry in text.split("\0"))
        return {name: value for name, equals, value in pairs if equals}

    def mapped_files(self) -> list[str]:
        lines = self.read(self.proc("maps")).rstrip("\n").split("\n")
        if lines == [""]:
            raise CannotTellError(f"{self.proc('maps')} is empty: the process has ended")
        fields = (line.split(maxsplit=5) for line in lines)
        return list(dict.fromkeys(f[5] for f in fields if len(f) == 6 and f[5].startswith("/")))

    def library(self) -> str | None:
        """The libstrata.so that the process has mapped, as the kernel names it."""
        files = self.mapped_files()
        return next((f for f in files if STRATA.search(f.removesuffix(DELETED))), None)

    def runs_strata(self) -> bool:
        """Whether to say what only Strata obeys, as `strata release PID`."""
        try:
            return self.pid is not None and self.library() is not None
        except CannotTellError:
            return False

    def command_line(self) -> str:
        """What starts the program again, for a shell. Servers write titles into their command line
        (`redis-server 127.0.0.1:6379`, one word): then the file, and a word to be replaced."""
        words = [word for word in self.read(self.proc("cmdline")).split("\0") if word]
        if words and " " not in words[0]:
            return shlex.join(words)
        try:
            program = str(self.path(self.proc("exe")).readlink()).removesuffix(DELETED)
        except OSError:
            return "COMMAND"
        return f"{shlex.quote(program)} ARGUMENTS"


def tell(view: View, rule: Callable[[View], Finding]) -> Finding:
    """What a rule says; "could not tell" where it could not."""
    name = rule.__name__.strip("_").replace("_", "-")
    try:
        return rule(view)
    except CannotTellError as error:
        return Finding(name, State.UNKNOWN, f"could not tell: {error}")


def ok(rule: str, says: str) -> Finding:
    return Finding(rule, State.OK, says)


def mend(rule: str, weight: Weight, says: str, *fixes: str) -> Finding:
    return Finding(rule, State.MEND, says, weight, fixes)


def human_bytes(count: float) -> str:
    from strata.stats import human

    return human(count)


def sysctl(name: str, value: int) -> str:
    return f"sudo sysctl -w {name}={value}"


def write(name: str, value: str) -> str:
    return f"echo {value} | sudo tee {name}"
