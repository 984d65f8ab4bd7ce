"""Rules about the kernel's and the C library's versions, rseq, limits and preloads."""

from __future__ import annotations

import re
import shlex

from strata.doctor.view import (
    V2,
    CannotTellError,
    Finding,
    View,
    Weight,
    human_bytes,
    mend,
    ok,
)
from strata.errors import why_refused
from strata.peers import GLIBC_NAME, find_system_library

Version = tuple[int, int]
RSEQ_KERNEL: Version = (4, 18)
COLLAPSE_KERNEL: Version = (6, 1)  # MADV_COLLAPSE
DENSE_KERNEL: Version = (6, 3)  # mm_cid: numbers of CPUs in use without holes
RSEQ_GLIBC: Version = (2, 35)
SMALL_ADDRESS_SPACE = 64 << 30
FEW_PROCESSES = 64
BUSY_CGROUP = 0.9
NO_LIMIT = 1 << 60  # v1 writes a huge number for none
OTHERS = ("jemalloc", "tcmalloc", "mimalloc", "snmalloc", "hoard", "rpmalloc", "mesh", "scudo")


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def kernel_version(view: View) -> Finding:
    release = view.read("/proc/sys/kernel/osrelease").strip()
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None:
        raise CannotTellError(f"the kernel calls itself {release[:40]!r}")
    version = (int(found[1]), int(found[2]))
    # Debian 12 itself stays at 6.1. When to boot it is for whoever runs the machine to say.
    fix = (
        "sudo apt install -t bookworm-backports linux-image-$(dpkg --print-architecture)"
        "  # Debian 12 with backports; elsewhere the distribution's newer kernel; in force at the"
        " next boot"
    )
    if version < RSEQ_KERNEL:
        return mend(
            "kernel-version",
            Weight.MUCH,
            f"Linux {release} has no restartable sequences ({_text(RSEQ_KERNEL)} has): caches are"
            " one a thread, which costs memory with many threads",
            fix,
        )
    if version < COLLAPSE_KERNEL:
        return mend(
            "kernel-version",
            Weight.SOME,
            f"Linux {release} cannot rebuild a hugepage on request ({_text(COLLAPSE_KERNEL)} can):"
            " what was partly given back stays in small pages",
            fix,
        )
    if version < DENSE_KERNEL:
        return mend(
            "kernel-version",
            Weight.LITTLE,
            f"Linux {release} does not number the CPUs in use without holes"
            f" ({_text(DENSE_KERNEL)} does): caches are one for each CPU that a thread ever ran on",
            fix,
        )
    return ok("kernel-version", f"Linux {release} has all that Strata uses")


def glibc_version(view: View) -> Finding:
    library = find_system_library(GLIBC_NAME, view.root)
    if library is None:
        raise CannotTellError(f"no {GLIBC_NAME} in the usual folders: is this musl?")
    try:
        content = library.read_bytes()
    except OSError as error:
        raise CannotTellError(f"{library}: {why_refused(error)}") from error
    found = re.search(rb"GNU C Library [^\n]*?version (\d+)\.(\d+)", content)
    if found is None:
        raise CannotTellError(f"{library} does not say its version")
    version = (int(found[1]), int(found[2]))
    if version < RSEQ_GLIBC:
        return mend(
            "glibc-version",
            Weight.MUCH,
            f"glibc {_text(version)} does not register restartable sequences"
            f" ({_text(RSEQ_GLIBC)} does): caches are one a thread",
            "use a distribution with glibc 2.35 or later (Debian 12, Ubuntu 22.04, RHEL 10)",
        )
    return ok("glibc-version", f"glibc {_text(version)} registers restartable sequences")


def rseq(view: View) -> Finding:
    """Whether the program's own environment switches rseq off."""
    tunables = view.environment().get("GLIBC_TUNABLES", "")
    if re.search(r"(^|:)glibc\.pthread\.rseq=0(:|$)", tunables):
        rest = ":".join(t for t in tunables.split(":") if not t.startswith("glibc.pthread.rseq="))
        fix = f"export GLIBC_TUNABLES={shlex.quote(rest)}" if rest else "unset GLIBC_TUNABLES"
        return mend(
            "rseq",
            Weight.MUCH,
            "GLIBC_TUNABLES switches restartable sequences off: caches are one a thread, which"
            " costs memory with many threads",
            fix + "  # where the program is started",
        )
    return ok("rseq", "nothing in the environment switches restartable sequences off")


def _limit(view: View, name: str) -> int | None:
    """The soft limit in its own unit, None for none."""
    found = re.search(rf"^{name}\s+(\S+)\s+\S+", view.read(view.proc("limits")), re.M)
    if found is None:
        raise CannotTellError(f"{view.proc('limits')} has no {name!r}")
    if found[1] == "unlimited":
        return None
    if not found[1].isdecimal():
        raise CannotTellError(f"{view.proc('limits')}: {name} is {found[1]!r}")
    return int(found[1])


def address_space(view: View) -> Finding:
    for name, letter, option in (("Max address space", "v", "as"), ("Max data size", "d", "data")):
        limit = _limit(view, name)
        if limit is not None and limit < SMALL_ADDRESS_SPACE:
            fix = f"ulimit -{letter} unlimited  # where the program is started"
            if view.pid is not None:
                fix = f"sudo prlimit --pid {view.pid} --{option}=unlimited"
            return mend(
                "address-space",
                Weight.SOME,
                f"{name.lower().removeprefix('max ')} is limited to {human_bytes(limit)}"
                f" (ulimit -{letter}): malloc returns null there, though memory may be free;"
                " STRATA_HEAP_LIMIT limits the heap itself",
                fix,
            )
    return ok("address-space", "address space and data size are not limited")


def processes(view: View) -> Finding:
    limit = _limit(view, "Max processes")
    if limit is not None and limit < FEW_PROCESSES:
        return mend(
            "processes",
            Weight.LITTLE,
            f"the user may have {limit} threads (ulimit -u): if the background thread cannot"
            " start, memory goes back only on request",
            "ulimit -u 4096  # where the program is started",
        )
    return ok("processes", "there is room for the background thread")


def _cgroup_folders(view: View, controller: str) -> tuple[str, list[str]]:
    """The kind of cgroup, and the folders from the process's own up to the top."""
    for line in view.read(view.proc("cgroup")).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            return "v1", _upwards(f"/sys/fs/cgroup/{controller}", path)
        if number == "0" and controllers == "" and view.exists(f"{V2}/cgroup.controllers"):
            return "v2", _upwards(V2, path)
    return "none", []


def _upwards(top: str, path: str) -> list[str]:
    """In a container the path may be the host's: the top, which is there, comes last always."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return [top + "".join(f"/{p}" for p in parts[:n]) for n in range(len(parts), -1, -1)]


def _least(view: View, folders: list[str], file: str) -> tuple[int, str] | None:
    """The tightest limit on the way up, and its folder."""
    found: tuple[int, str] | None = None
    for folder in folders:
        if not view.exists(f"{folder}/{file}"):
            continue
        text = view.read(f"{folder}/{file}").strip()
        if text == "max":
            continue
        if not text.isdecimal():
            raise CannotTellError(f"{folder}/{file} holds {text[:40]!r}")
        if int(text) < NO_LIMIT and (found is None or int(text) < found[0]):
            found = int(text), folder
    return found


def _reclaimable(view: View, kind: str, folder: str) -> int:
    """File cache that the kernel drops before it kills: the library does not count it either."""
    name = "inactive_file" if kind == "v2" else "total_inactive_file"
    if not view.exists(f"{folder}/memory.stat"):
        return 0
    found = re.search(rf"^{name} (\d+)$", view.read(f"{folder}/memory.stat"), re.M)
    return int(found[1]) if found else 0


def cgroup_memory(view: View) -> Finding:
    kind, folders = _cgroup_folders(view, "memory")
    limit_file, usage_file = (
        ("memory.max", "memory.current")
        if kind == "v2"
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    found = _least(view, folders, limit_file)
    throttled = _least(view, folders, "memory.high") if kind == "v2" else None
    if throttled is not None and (found is None or throttled[0] < found[0]):
        limit, folder = throttled
        what = "is slowed down"
    elif found is not None:
        limit, folder = found
        what = "is killed"
    else:
        return ok("cgroup-memory", f"no memory limit (cgroup {kind})")
    used = max(0, view.number(f"{folder}/{usage_file}") - _reclaimable(view, kind, folder))
    says = (
        f"{human_bytes(used)} of {human_bytes(limit)} in use without idle file cache; beyond, the"
        f" process {what}"
    )
    if used > BUSY_CGROUP * limit:
        file = f"{folder}/{'memory.high' if what == 'is slowed down' else limit_file}"
        return mend(
            "cgroup-memory",
            Weight.MUCH,
            f"the memory cgroup is nearly full: {says}",
            *([f"strata release {view.pid}"] if view.runs_strata() else []),
            write_number(file, limit + (limit >> 1)),
        )
    return ok("cgroup-memory", f"memory cgroup {kind}: {says}")


def write_number(file: str, value: int) -> str:
    return f"echo {value} | sudo tee {file}"


def _cpus_allowed(view: View) -> int:
    """How many CPUs the process may run on."""
    found = re.search(r"^Cpus_allowed_list:\s+([\d,-]+)$", view.read(view.proc("status")), re.M)
    if found is None:
        raise CannotTellError(f"{view.proc('status')} has no Cpus_allowed_list")
    ends = ([int(end) for end in part.split("-")] for part in found[1].split(","))
    return sum(end[-1] - end[0] + 1 for end in ends)


def cgroup_cpu(view: View) -> Finding:
    """A quota far below the number of CPUs: threads run everywhere, are stopped everywhere."""
    kind, folders = _cgroup_folders(view, "cpu")
    quota: float | None = None
    for folder in folders:
        names = ("cpu.max",) if kind == "v2" else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        if not all(view.exists(f"{folder}/{name}") for name in names):
            continue
        words = " ".join(view.read(f"{folder}/{name}").strip() for name in names).split()
        if not words or words[0] in ("max", "-1"):
            continue
        if len(words) != 2 or not all(w.isdecimal() for w in words) or int(words[1]) == 0:
            raise CannotTellError(f"{folder}/{names[0]} holds {' '.join(words)[:40]!r}")
        share = int(words[0]) / int(words[1])
        quota = share if quota is None else min(quota, share)
    if quota is None:
        return ok("cgroup-cpu", f"no CPU quota (cgroup {kind})")
    cpus = len(re.findall(r"^cpu\d+ ", view.read("/proc/stat"), re.M))
    if cpus == 0:
        raise CannotTellError("/proc/stat names no CPU")
    if quota * 4 <= cpus and _cpus_allowed(view) > max(1, round(quota)):
        return mend(
            "cgroup-cpu",
            Weight.LITTLE,
            f"a quota of {quota:.1f} CPUs on {cpus}: threads spread over all of them and are"
            " stopped together; pinning gives fewer caches and steadier latency",
            f"taskset -c 0-{max(0, round(quota) - 1)} COMMAND  # or a cpuset of that size",
        )
    return ok("cgroup-cpu", f"CPU quota of {quota:.1f} of {cpus} CPUs")


def preload_file(view: View) -> Finding:
    """/etc/ld.so.preload goes into every program, behind LD_PRELOAD."""
    if not view.exists("/etc/ld.so.preload"):
        return ok("preload-file", "no /etc/ld.so.preload")
    text = re.sub(r"#.*", "", view.read("/etc/ld.so.preload"))
    entries = [entry for entry in re.split(r"[\s:]+", text) if entry]
    # $LIB and the like are the dynamic linker's to expand, for each program anew
    gone = [e for e in entries if e.startswith("/") and "$" not in e and not view.exists(e)]
    for entry in entries:
        if entry not in gone and any(name in entry.lower() for name in OTHERS):
            return mend(
                "preload-file",
                Weight.SOME,
                f"/etc/ld.so.preload puts {entry} into every program: without LD_PRELOAD it, not"
                " Strata, is the allocator",
                f"sudoedit /etc/ld.so.preload  # take out {entry}",
            )
    if gone:
        return mend(
            "preload-file",
            Weight.LITTLE,
            f"/etc/ld.so.preload names {gone[0]}, which is not there: every program complains",
            f"sudoedit /etc/ld.so.preload  # take out {gone[0]}",
        )
    return ok("preload-file", "/etc/ld.so.preload names no other allocator")


RULES = (
    kernel_version,
    glibc_version,
    rseq,
    address_space,
    processes,
    cgroup_memory,
    cgroup_cpu,
    preload_file,
)
