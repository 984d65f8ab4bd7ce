"""A made-up machine for the tests of `strata doctor`: the files of one that is in order."""

from __future__ import annotations

import json
from pathlib import Path

from strata.doctor.view import CannotTellError, View

THP = "sys/kernel/mm/transparent_hugepage"
MEMINFO = (
    "MemTotal:       16000000 kB\nMemAvailable:    1000000 kB\n"
    "SwapTotal:       4000000 kB\nSwapFree:        3000000 kB\n"
    "CommitLimit:    12000000 kB\nCommitted_AS:    6000000 kB\n"
)
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max address space         unlimited            unlimited            bytes
Max data size             unlimited            unlimited            bytes
Max processes             unlimited            unlimited            processes
"""


def limits(name: str, value: str) -> str:
    """The file with one soft limit changed."""
    line = next(line for line in LIMITS.splitlines() if line.startswith(name))
    return LIMITS.replace(line, line.replace("unlimited", value, 1))


MAPS = (
    "55d0c0000000-55d0c0001000 r-xp 00000000 08:01 11 /usr/bin/server\n"
    "7f0000000000-7f0000001000 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n"
    "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n"
)
WITH_STRATA = MAPS + "7f1000000000-7f1000001000 r-xp 0 08:01 13 /opt/libstrata.so.0.1.0\n"
PSI = "some avg10=0.00 avg60={} avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 total=0\n"
PID = 77
TABLES_MIB = 100
ANSWER = f"control/{PID}/stats"  # what the process says when it is asked


def stats(
    backed_mib: int,
    heap_mib: int = 400,
    thin_use: int = 0,
    collapsed: int = 0,
    cold: int = 0,
    free_mib: int = 0,
    broken: int = 0,
    begun_small: int = 0,
) -> str:
    return json.dumps(
        {
            "cache_mode": "per-cpu (mm_cid)",
            "bytes": {
                "resident": heap_mib + TABLES_MIB << 20,
                "metadata": TABLES_MIB << 20,
                "hugepage_backed": backed_mib << 20,
            },
            "page_heap": {
                "thin_use": thin_use,
                "free_backed_bytes": free_mib << 20,
                "collapsed_total": collapsed,
                "filler": {"hugepages": 200},
                "cold_frames": cold,
                "first_touch_ns": 2_100_000,
            },
            "hugepage_occupancy": [[9, 9, "p", 9]] * broken + [[9, 9, "s", 9]] * begun_small,
        }
    )


# A machine in order: path -> content. A test changes what its rule looks at.
GOOD = {
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
    f"{THP}/khugepaged/max_ptes_none": "511\n",
    "proc/sys/vm/overcommit_memory": "0\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/sys/kernel/osrelease": "6.12.1-generic\n",
    "proc/meminfo": MEMINFO,
    "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 4000000 1000000 -2\n",
    "proc/pressure/memory": PSI.format("0.10"),
    "proc/stat": "cpu  1 2\n" + "".join(f"cpu{n} 1 2\n" for n in range(8)) + "intr 1\n",
    "proc/self/limits": LIMITS,
    "proc/self/environ": "PATH=/bin\0",
    "proc/self/cgroup": "0::/app/web\n",
    "proc/self/status": "Name:\tpython3\nCpus_allowed_list:\t0-3,5-7,10\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/app/memory.max": "max\n",
    "usr/lib/x86_64-linux-gnu/libc.so.6": "..GNU C Library (Debian) stable release version 2.36.\n",
    f"proc/{PID}/maps": WITH_STRATA,
    f"proc/{PID}/environ": "PATH=/bin\0LD_PRELOAD=/opt/libstrata.so.0.1.0\0",
    f"proc/{PID}/cmdline": "server\0--port\0007 7\0",
    f"proc/{PID}/limits": LIMITS,
    f"proc/{PID}/cgroup": "0::/app/web\n",
    f"proc/{PID}/status": "Name:\tserver\nVmRSS:\t  500000 kB\nVmSwap:\t 0 kB\nTHP_enabled:\t1\n",
    ANSWER: stats(380),
}
V1 = {
    "proc/self/cgroup": "9:cpu,cpuacct:/app\n5:memory:/app\n",
    "sys/fs/cgroup/memory/app/memory.limit_in_bytes": "1073741824\n",
    "sys/fs/cgroup/memory/app/memory.usage_in_bytes": "100\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/cgroup.controllers": None,
    "sys/fs/cgroup/cpu/app/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/app/cpu.cfs_period_us": "100000\n",
}
Changes = dict[str, str | None]


def machine(root: Path, changes: Changes, pid: int | None = None) -> View:
    """A tree as GOOD with some files changed; None takes a file away."""
    for name, content in (GOOD | changes).items():
        if content is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def ask(_: str) -> bytes:
        try:
            return (root / ANSWER).read_bytes()
        except OSError as error:
            raise CannotTellError("nobody answers") from error

    return View(root, pid, ask, wait=lambda _: None)
