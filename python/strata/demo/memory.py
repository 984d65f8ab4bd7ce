"""What the kernel says about one process: RSS, hugepages, faults, its heap page by page, a cgroup.

Reads /proc and the memory controller of either cgroup version. Everything that is sampled while
the server works is a counter; the walks over its page table run only between the phases.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PAGE = os.sysconf("SC_PAGE_SIZE")
HUGEPAGE = 2 << 20
PAGES_PER_HUGEPAGE = HUGEPAGE // PAGE
TICKS = os.sysconf("SC_CLK_TCK")
PRESENT = np.uint64(1 << 63)
V1_MEMORY = Path("/sys/fs/cgroup/memory")
V2_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Usage:
    """Counters of a process from /proc/PID/stat and statm."""

    rss: int
    minor_faults: int
    cpu_seconds: float


def usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage(resident * PAGE, int(fields[7]), (int(fields[11]) + int(fields[12])) / TICKS)


def peak_rss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def rollup(pid: int) -> dict[str, int]:
    """The process's smaps_rollup in bytes. Walks its page tables: not for a busy server."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}


def _meminfo(key: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"no {key} in /proc/meminfo")


def mem_free() -> int:
    return _meminfo("MemFree")


def mem_available() -> int:
    return _meminfo("MemAvailable")


def mapped_files(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}


def anonymous_ranges(pid: int) -> list[tuple[int, int]]:
    """Writable private memory of no file: the heap, whoever manages it, and thread stacks."""
    ranges = []
    for line in Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        name = fields[5] if len(fields) == 6 else ""
        anonymous = name in ("", "[heap]") or name.startswith("[anon:")
        if fields[1].startswith("rw") and fields[1].endswith("p") and anonymous:
            low, high = fields[0].split("-")
            ranges.append((int(low, 16), int(high, 16)))
    return ranges


def occupancy(pid: int) -> dict[int, int]:
    """Resident pages of each 2 MiB-aligned range of the heap that has any, by its number."""
    counts: dict[int, int] = {}
    with Path(f"/proc/{pid}/pagemap").open("rb") as pagemap:
        for low, high in anonymous_ranges(pid):
            for start in range(low, high, 256 << 20):  # an arena may reserve far more than it uses
                end = min(high, start + (256 << 20))
                pagemap.seek(start // PAGE * 8)
                entries = np.frombuffer(pagemap.read((end - start) // PAGE * 8), np.uint64)
                _add(counts, start, (entries & PRESENT) != 0)
    return counts


def _add(counts: dict[int, int], start: int, present: NDArray[np.bool_]) -> None:
    numbers = (start // PAGE + np.flatnonzero(present)) // PAGES_PER_HUGEPAGE
    for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
        counts[int(number)] = counts.get(int(number), 0) + int(count)


class MemoryGroup:
    """A memory cgroup of our own for one server, if this machine lets us make one."""

    def __init__(self, path: Path, usage_file: str, huge_key: str) -> None:
        self.path = path
        self._usage = path / usage_file
        self._stat = path / "memory.stat"
        self._huge_key = huge_key

    @classmethod
    def create(cls, name: str) -> MemoryGroup | None:
        if (V1_MEMORY / "memory.usage_in_bytes").exists():
            group = cls(V1_MEMORY / name, "memory.usage_in_bytes", "rss_huge")
        elif (V2_ROOT / "cgroup.subtree_control").exists():
            group = cls(V2_ROOT / name, "memory.current", "anon_thp")
        else:
            return None
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


def warm_up(size: int) -> None:
    """Touches memory once and gives it back, so that the first server does not pay for the host.

    On a virtual machine the very first use of a page can cost several times a later one. It runs
    in a child process, so nothing of it stays with us.
    """
    pid = os.fork()
    if pid == 0:
        try:
            import mmap

            with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
                with contextlib.suppress(OSError):
                    area.madvise(mmap.MADV_HUGEPAGE)
                for offset in range(0, size, PAGE):
                    area[offset] = 1
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
