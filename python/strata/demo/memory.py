"""What the kernel says about one process: RSS, hugepages, faults, its heap page by page, a cgroup.

Reads /proc and the memory controller of either cgroup version. Everything that is sampled while
the server works is a counter; the walks over its page table run only between the phases.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strata.procfs import CpuTime as CpuTime
from strata.procfs import MemoryGroup as MemoryGroup
from strata.procfs import cpu_times as cpu_times
from strata.procfs import mapped_files as mapped_files
from strata.procfs import peak_rss as peak_rss
from strata.procfs import rollup as rollup
from strata.procfs import usage as usage

PAGE = os.sysconf("SC_PAGE_SIZE")
HUGEPAGE = 2 << 20
PAGES_PER_HUGEPAGE = HUGEPAGE // PAGE
PRESENT = np.uint64(1 << 63)


def _meminfo(key: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"no {key} in /proc/meminfo")


def mem_free() -> int:
    return _meminfo("MemFree")


def mem_available() -> int:
    return _meminfo("MemAvailable")


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
