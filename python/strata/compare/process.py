"""Starts a measured program, watches its memory while it runs, and ends whatever it leaves.

RSS and hugepages are those of the program and all it started: the members of a memory cgroup of its
own where one can be made, else its descendants. The sum counts shared pages once a process, as ps
does; programs that fork and share much look larger than they are, under every allocator alike.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from strata import procfs
from strata.errors import StrataError, why_refused
from strata.launch import is_mapped
from strata.peers import GLIBC_NAME

PR_SET_PDEATHSIG = 1
FIRST_SAMPLE = 0.005
SAMPLE_GROWTH = 1.15  # a short program is seen often, a long one costs no more than it should
LONGEST_SAMPLE = 0.25
ROLLUP_SHARE = 0.02  # of the time at the most; it walks page tables while the program waits
STOP_SECONDS = 10.0
TAIL_BYTES = 4000
LIBC = ctypes.CDLL(None)


@dataclass
class Memory:
    """What was seen of a program's memory while it ran."""

    at: list[float] = field(default_factory=list)
    rss: list[int] = field(default_factory=list)
    peak: int = 0  # the first process's own, as the kernel keeps it
    anonymous: int = 0  # at the look that found the most
    huge: int = 0
    loaded: bool = False  # the library was seen in one of the processes
    lacking: bool = False  # one was linked without it

    @property
    def coverage(self) -> float | None:
        return self.huge / self.anonymous if self.anonymous else None


def _is_linked(pid: int) -> bool:
    """Whether the linker is through with its work: it maps preloads before the C library."""
    with contextlib.suppress(OSError):
        return any(path.endswith("/" + GLIBC_NAME) for path in procfs.mapped_files(pid))
    return False


class Program:
    """Context manager around a process group in a cgroup of its own. Leaves nothing behind."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        name: str,
        library: Path | None,
    ) -> None:
        self._command = command
        self._environment = environment
        self._library = library
        self.stdout = folder / f"{name}.out"
        self.stderr = folder / f"{name}.err"
        self.memory = Memory()
        self.usage: resource.struct_rusage | None = None  # there once it has ended
        self.wall = 0.0
        self.status: int | None = None  # as Popen's returncode
        self.pid = 0
        self._wait = FIRST_SAMPLE
        self._next_rollup = 0.0
        self._group: procfs.MemoryGroup | None = None

    def __enter__(self) -> Program:
        self._group = procfs.MemoryGroup.create(f"strata-compare-{os.getpid()}-{id(self):x}")
        try:
            self._start()
        except BaseException:  # Ctrl-C too: what began must not stay
            self._kill_rest()
            self._remove_group()
            raise
        return self

    def _start(self) -> None:
        procs = os.open(self._group.procs, os.O_WRONLY) if self._group is not None else -1

        def prepare() -> None:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if procs >= 0:
                os.write(procs, b"0")

        self.started = time.monotonic()
        try:
            with self.stdout.open("wb") as out, self.stderr.open("wb") as errors:
                self._process = subprocess.Popen(
                    self._command,
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=errors,
                    start_new_session=True,  # Ctrl-C is for us, who then stop the program
                    preexec_fn=prepare,
                )
        except OSError as error:
            raise StrataError(f"{self._command[0]}: {why_refused(error)}", 127) from error
        finally:
            if procs >= 0:
                os.close(procs)
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(signal.SIGKILL if kind is not None else signal.SIGTERM)
        self._kill_rest()
        os.close(self._pidfd)
        self._remove_group()

    # ---- watching

    def pids(self) -> list[int]:
        if self._group is not None:
            with contextlib.suppress(OSError, ValueError):
                return self._group.pids()
        return procfs.descendants(self.pid)

    def sample(self) -> None:
        """One look at the memory of all its processes."""
        pids = self.pids()
        total = 0
        for pid in pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += procfs.usage(pid).rss
        if total == 0:
            return
        now = time.monotonic()
        with contextlib.suppress(OSError, ValueError, IndexError):
            self.memory.peak = max(self.memory.peak, procfs.peak_rss(self.pid))
        self.memory.at.append(round(now - self.started, 4))
        self.memory.rss.append(total)
        if self._library is not None and not self.memory.loaded:
            self.memory.loaded = any(is_mapped(pid, self._library) for pid in pids)
            self.memory.lacking |= not self.memory.loaded and any(map(_is_linked, pids))
        if now >= self._next_rollup:
            self.look_at_hugepages(pids)
            cost = time.monotonic() - now
            self._next_rollup = now + max(0.3, cost / ROLLUP_SHARE)

    def look_at_hugepages(self, pids: list[int] | None = None) -> None:
        anonymous = huge = 0
        for pid in self.pids() if pids is None else pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                rollup = procfs.rollup(pid)
                anonymous += rollup.get("Anonymous", 0)
                huge += rollup.get("AnonHugePages", 0)
        if anonymous >= self.memory.anonymous:
            self.memory.anonymous, self.memory.huge = anonymous, huge

    def ended(self, seconds: float) -> bool:
        """Waits at most that long for its end, which is noticed at once."""
        if self.status is not None:
            return True
        if not select.select([self._pidfd], [], [], max(0.0, seconds))[0]:
            return False
        self.wall = time.monotonic() - self.started
        _, status, self.usage = os.wait4(self.pid, 0)
        self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
        return True

    def step(self, other: Program | None = None) -> bool:
        """Waits one sampling interval and samples; true once it, or the other one, has ended."""
        both = [self] if other is None else [self, other]
        select.select([p._pidfd for p in both if p.status is None], [], [], self._wait)
        ended = [program.ended(0) for program in both]  # each is asked
        if True in ended:
            return True
        self.sample()
        self._wait = min(LONGEST_SAMPLE, self._wait * SAMPLE_GROWTH)
        return False

    def counters(self) -> procfs.Usage:
        """CPU and faults of its live processes together."""
        rss = minor = major = 0
        cpu = user = 0.0
        for pid in self.pids():
            with contextlib.suppress(OSError, ValueError, IndexError):
                usage = procfs.usage(pid)
                rss, minor = rss + usage.rss, minor + usage.minor_faults
                major, cpu = major + usage.major_faults, cpu + usage.cpu_seconds
                user += usage.user_seconds
        return procfs.Usage(rss, minor, cpu, major, user)

    def peak_rss(self) -> int:
        """The largest sum seen; for what still lives, at least each one's own peak."""
        own = 0
        for pid in self.pids():
            with contextlib.suppress(OSError, ValueError, IndexError):
                own = max(own, procfs.peak_rss(pid))
        # A process's ru_maxrss begins with the size of ours, which it was before it was executed.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if self.usage is not None and self.usage.ru_maxrss > ours:
            own = max(own, self.usage.ru_maxrss << 10)
        return max([own, self.memory.peak, *self.memory.rss])

    # ---- its end

    def stop(self, first: signal.Signals = signal.SIGTERM) -> None:
        for number in (first, signal.SIGKILL):
            if self.status is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
            self.ended(STOP_SECONDS)

    def _kill_rest(self) -> None:
        """What it started and left: killed, so that it does not disturb the next run."""
        if self.pid:  # 0 would be our own group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        if self._group is not None:
            with contextlib.suppress(OSError, ValueError):
                for pid in self._group.pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def _remove_group(self) -> None:
        if self._group is not None:
            self._group.remove()

    def output(self) -> str:
        return self.stdout.read_text(errors="replace")

    def last_words(self) -> str:
        """The last line on stderr, for an error message."""
        with contextlib.suppress(OSError):
            text = self.stderr.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1]
        return "it said nothing"

    def refused(self) -> bool:
        """Whether the dynamic linker complained about the library and went on without it."""
        with contextlib.suppress(OSError):
            text = self.stderr.read_bytes()[:TAIL_BYTES]
            return b"cannot be preloaded" in text and b"ERROR: ld.so" in text
        return False

    def how_it_ended(self) -> str:
        """What an exit status other than 0 means, in words; empty for 0."""
        if self.status is None or self.status == 0:
            return ""
        if self.status < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.status).name}: {self.last_words()}"
        return f"exit status {self.status}: {self.last_words()}"
