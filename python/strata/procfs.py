"""What the kernel says about one process and what it started: memory, faults, CPU, a memory cgroup.

Shared by the demo, `strata compare` and `strata doctor`. Only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
V1_MEMORY = Path("/sys/fs/cgroup/memory")
V2_ROOT = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def descendants(pid: int) -> list[int]:
    """The process and, as far as they still hang on it, all that it started."""
    found = [pid]
    for parent in found:  # grows while it is walked
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with contextlib.suppress(OSError):
                    found += [int(word) for word in (task / "children").read_text().split()]
    return found


@dataclass(frozen=True)
class Usage:
    """Counters of a process from /proc/PID/stat and statm."""

    rss: int
    minor_faults: int
    cpu_seconds: float
    major_faults: int = 0
    user_seconds: float = 0.0


def usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    user, system = int(fields[11]) / TICKS, int(fields[12]) / TICKS
    return Usage(resident * PAGE, int(fields[7]), user + system, int(fields[9]), user)


@dataclass(frozen=True)
class CpuTime:
    """CPU time that threads have spent. The sum is the scheduler's, in nanoseconds; its split into
    user and system time is the kernel's estimate, in ticks of a hundredth of a second."""

    seconds: float
    user: float
    system: float

    def __add__(self, other: CpuTime) -> CpuTime:
        return CpuTime(
            self.seconds + other.seconds, self.user + other.user, self.system + other.system
        )

    def __sub__(self, other: CpuTime) -> CpuTime:
        return CpuTime(
            self.seconds - other.seconds, self.user - other.user, self.system - other.system
        )


NO_TIME = CpuTime(0.0, 0.0, 0.0)


def cpu_times(pid: int) -> tuple[CpuTime, CpuTime]:
    """What the main thread has spent, and what all others together that still run."""
    main = others = NO_TIME
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            fields = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()
            nanoseconds = int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # it has ended since
        spent = CpuTime(nanoseconds * 1e-9, int(fields[11]) / TICKS, int(fields[12]) / TICKS)
        if task.name == str(pid):
            main = spent
        else:
            others += spent
    return main, others


def spent_since(before: tuple[CpuTime, CpuTime], pid: int) -> float:
    """CPU seconds of all threads since `before`."""
    after = cpu_times(pid)
    return sum(now.seconds - then.seconds for now, then in zip(after, before, strict=True))


def peak_rss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").split("\n"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def rollup(pid: int) -> dict[str, int]:
    """The process's smaps_rollup in bytes. Walks its page tables: not for a busy server."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}


def mapped_files(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").split("\n")
    return {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}


def _below_ours(root: Path, controllers: str) -> Path | None:
    """The cgroup that we are in, so that a group below it keeps the limits that we run under."""
    for line in OWN_GROUPS.read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controllers in names.split(","):
            ours = root / path.lstrip("/")
            return ours if ours.is_dir() else None  # else another namespace's: not ours to find
    return None


def _hands_limits_down(group: Path) -> bool:
    """Whether groups below one of version 1 are held to its limits too."""
    return (group / "memory.use_hierarchy").read_text().strip() == "1"


class MemoryGroup:
    """A memory cgroup of our own for one server, if this machine lets us make one.

    It lies below the cgroup that we are in: a limit on us holds for the server too. Under version 2
    a group that holds processes and is not the root cannot have one below it that counts memory;
    then there is none.
    """

    def __init__(self, path: Path, usage_file: str, limit_file: str, huge_key: str) -> None:
        self.path = path
        self.limit = path / limit_file
        self._usage = path / usage_file
        self._stat = path / "memory.stat"
        self._huge_key = huge_key

    @classmethod
    def create(cls, name: str) -> MemoryGroup | None:
        version_1 = (V1_MEMORY / "memory.usage_in_bytes").exists()
        root = V1_MEMORY if version_1 else V2_ROOT
        try:
            parent = _below_ours(root, "memory" if version_1 else "")
            if parent is None:
                return None
            if version_1 and parent != root and not _hands_limits_down(parent):
                return None
        except (OSError, ValueError):
            return None
        if version_1:
            names = ("memory.usage_in_bytes", "memory.limit_in_bytes", "rss_huge")
        else:
            names = ("memory.current", "memory.max", "anon_thp")
        group = cls(parent / name, *names)
        try:
            group.path.mkdir()
            group.usage()
            group.huge()
        except (OSError, ValueError):
            group.remove()
            return None
        if not os.access(group.path / "cgroup.procs", os.W_OK):
            group.remove()
            return None
        return group

    @property
    def procs(self) -> Path:
        return self.path / "cgroup.procs"

    def pids(self) -> list[int]:
        """The processes in it: all that its first one started, orphans too."""
        return [int(line) for line in self.procs.read_text().split()]

    def usage(self) -> int:
        return int(self._usage.read_text())

    def huge(self) -> int:
        for line in self._stat.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == self._huge_key:
                return int(value)
        raise ValueError(f"no {self._huge_key} in {self._stat}")

    def remove(self) -> None:
        for _ in range(20):
            with contextlib.suppress(FileNotFoundError):
                try:
                    self.path.rmdir()
                except OSError:
                    time.sleep(0.05)  # the last page of a dead process may still be charged
                    continue
            return
